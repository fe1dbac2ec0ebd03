// Package runner turns a rendered QEMU config into a running, controlled VM.
//
// One Run supervises one VM: it prepares what QEMU needs, starts QEMU with a stopped guest, sets it up over QMP,
// lets the guest run, and powers it down when its context ends. It decides nothing about the hardware but the
// choices that a config leaves to the place where the VM runs. It knows neither Kubernetes nor the templates.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// Options are what a run needs besides its config. The zero value is usable.
type Options struct {
	// Logger gets what happens; without it nothing is logged.
	Logger *slog.Logger
	// Configs gets new configs while the VM runs, and already while it is prepared. It is read at once, always, until Run
	// returns. Of each config the live part is followed; what else it says needs another run. See FollowConfig.
	Configs <-chan *Config
	// Observe is called with each new state, in order. The VM waits for it: what may take time uses VM.Status instead.
	Observe func(State)
	// ProbeKVM tells whether a guest can run under KVM. Without it KVM is used where /dev/kvm can be opened.
	ProbeKVM func(context.Context) error
	// Serial is the guest's first serial port, for all who want to read it or type. Without it there is one of this run's own.
	Serial *serial.Port
	// ConsoleOut gets what the guest writes to its first serial port. A writer that is too slow loses output; it
	// never holds up the guest.
	ConsoleOut io.Writer
	// ConsoleIn is one of those who type at the first serial port. When another writer has taken over, what comes
	// takes the port back. A Read that is under way when the VM ends is left behind, as there is no way to end it.
	ConsoleIn io.Reader
	// Force ends the VM at once when it is closed, without waiting for the guest.
	Force <-chan struct{}
}

// vm is one run of a VM.
type vm struct {
	// cfg is the config that the run begins with, newest the last one that came.
	cfg      *Config
	newest   *latest[*Config]
	opts     Options
	log      *slog.Logger
	report   *report
	launcher *launcher
	data     *dataDir
	program  string
	machines map[string]bool
	kept     *kept
	values   Values
	// overlays are what is behind the throw-away disks, by the choice's name.
	overlays map[string]map[string]string
	fds      *inherited
	qemu     *process
	tpm      *process
	monitor  *qmp.Monitor
	watcher  *watcher
	follower *follower
	pace     pace
	// gauge measures QEMU while there is one that can be asked.
	gauge atomic.Pointer[gauge]
	// guestAgent keeps in touch with QEMU's guest agent while there is a QEMU, login with VM-Operator's; agents are what follows them.
	guestAgent atomic.Pointer[guestAgent]
	login      *login
	agents     []func(context.Context)
	// screen shows QEMU's display, likewise.
	screen atomic.Pointer[screen]
	// taps are the names of the tap devices, by their file descriptors' names.
	taps map[string]string
	// running is set when the guest runs.
	running bool
	// watched is closed when the watcher has seen the last event.
	watched chan struct{}
	// cleanups undo the start, last one first.
	cleanups []func()
}

// live is the run from its start to the end of all that belongs to it.
func (v *vm) live(ctx context.Context) (End, error) {
	defer v.cleanup()
	v.takeConfigs()
	v.report.observed(v.cfg.Live.Generation)
	v.report.begin()
	if err := v.start(ctx); err != nil {
		if v.stopRequested(ctx) {
			return EndCalledOff, nil
		}
		return "", err
	}
	v.inBackground(func() { v.keepChoices(context.WithoutCancel(ctx)) })
	untilExit, cancel := v.untilExit(ctx)
	defer cancel()
	if v.tpm != nil {
		v.inBackground(func() { v.watchTPM(untilExit) })
	}
	v.inBackground(func() { v.resume(untilExit) })
	v.followAgents(untilExit)
	following, stop := context.WithCancel(untilExit)
	v.inBackground(func() { v.follow(following) })
	return v.supervise(ctx, stop)
}

func newVM(cfg *Config, opts Options) *vm {
	v := &vm{cfg: cfg, opts: opts, log: opts.Logger, watched: make(chan struct{}), newest: newLatest(cfg)}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	v.log = v.log.With("vm", cfg.Boot.Name)
	v.report = newReport(v.log, opts.Observe)
	v.pace = defaultPace
	if v.opts.Serial == nil {
		v.opts.Serial = serial.New(serial.DefaultSize)
	}
	return v
}

// follow makes the VM comply with each new config, until the context ends.
func (v *vm) follow(ctx context.Context) {
	events := v.monitor.Subscribe(qmp.EventBuffer)
	defer events.Close()
	v.follower.follow(ctx, v.newest, events.Events())
}

// untilExit returns a context that ends with QEMU, not with the one given.
func (v *vm) untilExit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	v.inBackground(func() {
		select {
		case <-v.qemu.exited:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// takeConfigs keeps the newest config, as they come, until the end.
func (v *vm) takeConfigs() {
	end := make(chan struct{})
	v.onCleanup(func() { close(end) })
	go func() {
		for {
			select {
			case <-end:
				return
			case c, ok := <-v.opts.Configs:
				if !ok {
					return
				}
				v.newest.set(c)
			}
		}
	}()
}

func (v *vm) stopRequested(ctx context.Context) bool {
	select {
	case <-v.opts.Force:
		return true
	default:
		return ctx.Err() != nil
	}
}

// onCleanup adds what has to be undone at the end.
func (v *vm) onCleanup(f func()) {
	v.cleanups = append(v.cleanups, f)
}

func (v *vm) cleanup() {
	for len(v.cleanups) > 0 {
		last := len(v.cleanups) - 1
		v.cleanups[last]()
		v.cleanups = v.cleanups[:last]
	}
}

// inBackground runs f, which has to end when QEMU does, beside the supervision; the run ends after it.
func (v *vm) inBackground(f func()) {
	done := make(chan struct{})
	v.onCleanup(func() { <-done })
	go func() {
		defer close(done)
		f()
	}()
}

// start does everything up to the guest's first instruction. It gives up when the context or opts.Force ends.
func (v *vm) start(ctx context.Context) error {
	ctx, cancel := v.forcible(ctx)
	defer cancel()
	v.launcher = newLauncher()
	v.onCleanup(v.launcher.close)
	if err := v.cfg.Check(); err != nil {
		return err
	}
	if err := v.prepare(ctx); err != nil {
		return err
	}
	if err := v.startQEMU(); err != nil {
		return err
	}
	if err := v.setUp(ctx); err != nil {
		return v.explain(err)
	}
	return nil
}

// startQEMU starts QEMU with the guest stopped.
func (v *vm) startQEMU() error {
	v.values.FD = v.fds.numbers
	argv, err := CommandLine(v.cfg.Boot, v.values)
	if err != nil {
		return err
	}
	if err := v.attach(); err != nil {
		return err
	}
	v.log.Debug("starting QEMU", "program", v.program, "args", argv)
	v.qemu, err = startProcess(v.launcher, v.cfg.Boot.User, v.program, argv, v.fds.files)
	if err != nil {
		return err
	}
	v.onCleanup(func() { v.kill(v.qemu) })
	v.fds.release()
	v.report.update(func(s *Status) { s.PID = v.qemu.cmd.Process.Pid })
	return nil
}

// kill makes sure that a child process is gone.
func (v *vm) kill(p *process) {
	if err := p.stop(); err != nil {
		v.log.Error("a process is left behind", "error", err)
	}
}

// attach takes up the runner's ends of what QEMU is going to inherit. It comes before the start of QEMU, so that
// they are closed after QEMU has ended and its last words have been read.
func (v *vm) attach() error {
	conn, ok := v.fds.ends[FDMonitor]
	if !ok {
		return fmt.Errorf("%w: no argument refers to fd %s", ErrReference, FDMonitor)
	}
	v.monitor = qmp.New(conn)
	v.watcher = &watcher{report: v.report, pace: v.pace}
	v.onCleanup(func() { _ = v.monitor.Disconnect() })
	events := v.monitor.Subscribe(qmp.EventBuffer)
	go func() {
		defer close(v.watched)
		v.watcher.follow(events.Events())
	}()
	v.attachAgents()
	if conn, ok := v.fds.ends[FDSerial]; ok {
		v.onCleanup(v.attachConsole(conn))
	}
	return nil
}

// greetingTimeout is how long QEMU may take to be ready. Most take milliseconds, but one that has to
// fill hundreds of GiB of huge pages takes minutes.
const greetingTimeout = 15 * time.Minute

// setUp connects to QEMU, configures it, and lets the guest run.
func (v *vm) setUp(ctx context.Context) error {
	greeting, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	if err := v.monitor.ConnectContext(greeting); err != nil {
		return err
	}
	v.report.update(func(s *Status) { s.QEMU, s.Resolved = v.monitor.Version().String(), v.values.Resolve })
	// A guest that runs with less than it should have is of more use than none: what fails is reported, and tried again.
	v.follower = &follower{report: v.report, pace: v.pace, make: v.newSetting}
	v.follower.take(ctx, &v.cfg.Live)
	v.gauge.Store(&gauge{pid: v.qemu.cmd.Process.Pid, monitor: v.monitor, taps: v.taps})
	v.screen.Store(&screen{monitor: v.monitor, user: v.cfg.Boot.User, dir: v.cfg.Boot.RuntimeDir})
	v.onCleanup(func() { v.gauge.Store(nil); v.screen.Store(nil) })
	booted := BootedConfig{Revision: v.cfg.Revision, Why: v.cfg.Why}
	if err := v.report.started(booted, func() error { return v.monitor.Execute(ctx, "cont", nil, nil) }); err != nil {
		return err
	}
	v.running = true
	v.qemu.tail.setFollow(func(line string) { v.log.Warn("QEMU: " + line) })
	return nil
}

// exitDelay is how long QEMU may take to go after it has closed its monitor, and its last events to
// arrive after it has gone.
const exitDelay = 2 * time.Second

// explain replaces the loss of the monitor during the start by what QEMU itself said.
func (v *vm) explain(err error) error {
	select {
	case <-v.monitor.Done():
	case <-v.qemu.exited:
	default:
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitDelay)
	defer cancel()
	if !v.qemu.wait(ctx) {
		return err
	}
	return refusal(v.qemu, v.tpm)
}

// forcible returns a context that also ends when opts.Force is closed.
func (v *vm) forcible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-v.opts.Force:
			cancel(errForced)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

var errForced = errors.New("end was forced")
