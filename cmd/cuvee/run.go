package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/kvm"
)

// localTemplates is the overlay for VMs without a cluster.
const localTemplates = "templates/vm/local"

type runFlags struct {
	inputFlags
	disks   []string
	dataDir string
	accel   string
	verbose bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Run a VirtualMachine on this machine, in the foreground, without Kubernetes",
		Long: `Run a VirtualMachine on this machine, in the foreground, without Kubernetes: the same templates with the overlay
templates/vm/local, the same runner. The VM's first serial port is on the terminal.

Ctrl-C (or SIGTERM, or that nobody reads the output any more) asks the guest to power down and waits for it as long as
powerdownTimeout says; a second Ctrl-C ends the VM at once. Disks are files: those of --disk, otherwise files in the data directory that are made at the first
start, and filled with their source if they have one. Images of disks may be files and directories here; others are kept in the
user's cache directory. Networks are of the user kind. The VM runs even if its spec.vm.state is Stopped.

The data directory is $XDG_DATA_HOME/cuvee/NAMESPACE/NAME (usually below ~/.local/share); it holds the disks, the firmware's
variables and what was chosen at the first start.

A guest's reboot does not end the run. A guest that shuts itself down does, unless spec.guestShutdownStops is false: then it
is started again.

KVM is used where a guest really runs under it; otherwise QEMU emulates the CPU, which is slow, and no barrier between
a hostile guest and this machine.

Exit codes:
  0  the guest shut down, by itself or when asked to
  1  the input is refused, or the VM could not be prepared
  2  the command line is wrong
  3  QEMU refused to start: an option, a file, a disk in use
  4  the guest did not shut down in time, or was ended by a second Ctrl-C
  5  QEMU ended by itself
  6  the guest's kernel panicked, and QEMU ended for that`,
		Example: `  cuvee run -f vm.yaml
  cuvee run -f vm.yaml --disk system=debian.raw --disk data=/dev/vg0/data`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.disks, "disk", nil, "as `NAME=FILE`, a file or block device for the disk of this name (name, or disk-n if it has none); may be repeated")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "where the VM's data is kept")
	cmd.Flags().StringVar(&f.accel, "accel", "auto", "kvm, tcg, or auto: kvm where a guest runs under it")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "tell what the runner does")
	complete(cmd, "accel", "auto", "kvm", "tcg")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command) error {
	switch f.accel {
	case "auto", "kvm", "tcg":
	default:
		return usage(cmd, fmt.Errorf("unknown accelerator %q, want auto, kvm or tcg", f.accel))
	}
	disks, err := diskFiles(f.disks)
	if err != nil {
		return usage(cmd, err)
	}
	set, err := f.templates(cmd.ErrOrStderr(), localTemplates)
	if err != nil {
		return err
	}
	docs, others, err := f.load(cmd, set)
	if err != nil {
		return err
	}
	if len(docs) != 1 {
		return fmt.Errorf("%d VirtualMachines in the input, want one", len(docs))
	}
	if faults := set.Check(docs[0]); len(faults) > 0 {
		return faults
	}
	// From here on there is a directory to remove, so a signal must not end this process. It is heard when the
	// VM starts, which is a moment later.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// With SIGPIPE caught, a write that nobody can read fails, and does not end this process. Which write it was the signal does not
	// say: a console's client that hangs up raises it, too. So nothing is read from here, see watchedOutput.
	brokenPipes := make(chan os.Signal, 1)
	signal.Notify(brokenPipes, syscall.SIGPIPE)
	defer signal.Stop(brokenPipes)
	host, err := f.host(docs[0], disks)
	if err != nil {
		return err
	}
	defer host.remove()
	cfg, err := host.config(cmd.ErrOrStderr(), set, docs[0], others)
	if err != nil {
		return err
	}
	if err := host.runtime.identify(runningVM{
		identity: identity{Namespace: host.namespace, Name: cfg.Boot.Name}, DataDir: host.dataDir, Display: displayOf(cfg, docs[0]),
	}); err != nil {
		return fmt.Errorf("write runtime directory: %w", err)
	}
	return f.supervise(cmd, cfg, host.runtimeDir, signals)
}

// supervise runs the VM until it ends, with the terminal at its serial port, its console on a socket in the runtime directory, and
// signals as its power button.
func (f *runFlags) supervise(cmd *cobra.Command, cfg *runner.Config, runtimeDir string, signals chan os.Signal) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	force := make(chan struct{})
	logger := newLogger(cmd.ErrOrStderr(), f.verbose)
	go powerButton(ctx, signals, cancel, force, logger, cfg)

	in, restore := consoleInput(cmd.InOrStdin())
	defer restore()
	keys := newKeyboard(in)
	console, stop := serveConsole(runtimeDir, logger)
	defer stop()
	run := func() (runner.End, error) {
		typed, over := keys.session()
		defer over()
		vm := runner.New(cfg, runner.Options{
			Logger:     logger,
			ProbeKVM:   probeKVM(logger, f.accel),
			Serial:     console.serial,
			ConsoleIn:  typed,
			ConsoleOut: watchedOutput{cmd.OutOrStdout(), signals},
			Force:      force,
		})
		console.vm.Store(vm)
		showing, shown := context.WithCancel(ctx)
		var shows sync.WaitGroup
		shows.Go(func() { showImports(showing, vm, cmd.ErrOrStderr()) })
		defer func() { shown(); shows.Wait() }()
		return vm.Run(ctx)
	}
	end, err := untilStopped(ctx, cfg, logger, run)
	restore()
	if code := runner.ExitCode(end, err); code != exitOK {
		if err == nil {
			err = errors.New("the guest did not shut down; it was switched off")
		}
		return exitError{code: code, err: f.hint(err)}
	}
	return nil
}

// hint says what may help against a failure, beyond what QEMU said.
func (f *runFlags) hint(err error) error {
	if f.accel == "kvm" && errors.Is(err, runner.ErrRefused) {
		return fmt.Errorf("%w\nif that is about KVM: --accel auto uses it only where a guest runs under it, --accel tcg does without", err)
	}
	return err
}

// leastRun is how long a guest has to run before it is started again at once: one that shuts down as soon as it has started
// would keep the machine busy.
const leastRun = 10 * time.Second

// untilStopped runs the VM, and again when its guest has shut itself down and the spec does not say that it then stops.
func untilStopped(ctx context.Context, cfg *runner.Config, logger *slog.Logger, run func() (runner.End, error)) (runner.End, error) {
	for {
		begin := time.Now()
		end, err := run()
		if err != nil || end != runner.EndGuest || cfg.Live.GuestShutdownStops {
			return end, err
		}
		logger.Warn("the guest has shut down; it starts again, as guestShutdownStops is false")
		again := time.NewTimer(time.Until(begin.Add(leastRun)))
		select {
		case <-ctx.Done():
			again.Stop()
			return end, nil
		case <-again.C:
		}
	}
}

// powerButton turns the first signal into a shutdown, and a Ctrl-C after it into its end. Any other signal does not end the VM: who sends
// SIGTERM may well send it twice, timeout(1) for one.
func powerButton(ctx context.Context, signals <-chan os.Signal, cancel func(), force chan<- struct{}, logger *slog.Logger, cfg *runner.Config) {
	select {
	case <-ctx.Done():
		return
	case <-signals:
	}
	logger.Warn("asking the guest to power down; Ctrl-C ends it at once", "seconds", cfg.Live.PowerdownTimeout)
	cancel()
	for s := range signals {
		if s == os.Interrupt {
			close(force)
			return
		}
	}
}

// watchedOutput presses the power button when nobody reads the guest's console any more, as in "cuvee run | head".
type watchedOutput struct {
	io.Writer
	signals chan<- os.Signal
}

func (w watchedOutput) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		select {
		case w.signals <- syscall.SIGPIPE:
		default: // One is there already.
		}
	}
	return n, err
}

// probeKVM says whether a guest really runs under KVM, and why not if it does not.
func probeKVM(logger *slog.Logger, accel string) func(context.Context) error {
	if accel == "kvm" {
		// Asked for by name: QEMU says itself what is wrong.
		return nil
	}
	return func(ctx context.Context) error {
		err := kvm.Probe(ctx)
		if err != nil {
			logger.Warn("KVM is not usable, the guest's CPU is emulated: slow, and no security boundary", "reason", err)
		}
		return err
	}
}

// consoleInput is the guest's input, and what undoes the change of the terminal.
func consoleInput(in io.Reader) (io.Reader, func()) {
	f, ok := in.(*os.File)
	if !ok {
		return in, func() {}
	}
	return in, unbuffered(f)
}
