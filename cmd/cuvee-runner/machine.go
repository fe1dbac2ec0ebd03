package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/endpoint"
	"github.com/cuvee-vm/cuvee/runner/kvm"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// leastRun is how long a VM shall have run before it is started again, so that a guest that shuts down at once is no busy loop.
const leastRun = 10 * time.Second

// machine is the VM with its newest config. It may be run several times.
type machine struct {
	log *slog.Logger
	// vmLog is for the VM, which names itself.
	vmLog   *slog.Logger
	changes <-chan *runner.Config

	// end ends QEMU at once. It may be called more than once.
	end   func()
	force <-chan struct{}

	// serial outlives the VM's runs.
	serial *serial.Port
	newest atomic.Pointer[runner.Config]
	vm     atomic.Pointer[runner.VM]

	mu sync.Mutex
	// changed gets new configs for the VM that is the current one.
	changed chan *runner.Config
}

func newMachine(first *runner.Config, changes <-chan *runner.Config, log *slog.Logger) *machine {
	force := make(chan struct{})
	log = log.With("namespace", first.Boot.Namespace)
	m := &machine{
		log: log.With("vm", first.Boot.Name), vmLog: log, changes: changes,
		force: force, end: sync.OnceFunc(func() { close(force) }),
		serial: serial.New(serial.DefaultSize),
	}
	m.newest.Store(first)
	m.renew()
	return m
}

// renew makes the VM that is run next, with the newest config.
func (m *machine) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = make(chan *runner.Config, 1)
	m.vm.Store(runner.New(m.newest.Load(), runner.Options{
		Logger:   m.vmLog,
		Configs:  m.changed,
		Force:    m.force,
		ProbeKVM: m.probeKVM,
		Serial:   m.serial,
	}))
}

// take keeps the newest config, and hands it to the VM.
func (m *machine) take(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c, ok := <-m.changes:
			if !ok {
				return
			}
			m.hand(c)
		}
	}
}

// hand hands a config to the VM, which may be at its end and take none. Only the newest one waits.
func (m *machine) hand(c *runner.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest.Store(c)
	select {
	case <-m.changed:
	default:
	}
	m.changed <- c
}

// ram is what the guest shall have, in bytes.
func (m *machine) ram() int64 {
	live := m.newest.Load().Live
	sum := live.CurrentRAM
	for _, size := range live.Memory {
		sum += size
	}
	return sum
}

func (m *machine) source() endpoint.Source { return m.vm.Load() }

// probeKVM says whether a guest really runs under KVM, and tells why not if it does not.
func (m *machine) probeKVM(ctx context.Context) error {
	err := kvm.Probe(ctx)
	if err != nil {
		m.log.Warn("KVM is not usable, the guest's CPU is emulated: slow, and no security boundary", "reason", err)
	}
	return err
}

// runAlone runs the VM without a cluster. A VM whose guest has shut itself down is started again, unless it shall stop then.
func (m *machine) runAlone(ctx context.Context) (int, error) {
	for {
		begun := time.Now()
		end, err := m.vm.Load().Run(ctx)
		if err != nil || end != runner.EndGuest || m.newest.Load().Live.GuestShutdownStops {
			return runner.ExitCode(end, err), err
		}
		select {
		case <-ctx.Done():
			return runner.ExitStopped, nil
		case <-time.After(leastRun - time.Since(begun)):
		}
		m.renew()
	}
}

// serve serves the endpoints; the function that it returns ends that.
func (o *options) serve(m *machine) (func(), error) {
	if o.listen == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := endpoint.Listen(ctx, o.listen, m.log)
	if err != nil {
		cancel()
		return nil, err
	}
	m.log.Info("serving metrics", "address", listener.Addr().String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := endpoint.Serve(ctx, listener, endpoint.Handler(m.source, version)); err != nil {
			m.log.Error("metrics are not served any more", "error", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}
