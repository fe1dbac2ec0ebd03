package runner

import "context"

// VM is a VM that is run once. All its methods may be called at any time, before, during and after the run, by
// any number of goroutines; none of them holds up the VM.
type VM struct {
	vm *vm
}

// New prepares the run of a VM. Nothing is done before Run.
func New(cfg *Config, opts Options) *VM {
	return &VM{vm: newVM(cfg, opts)}
}

// Run runs a VM; see VM.Run.
func Run(ctx context.Context, cfg *Config, opts Options) (End, error) {
	return New(cfg, opts).Run(ctx)
}

// Run runs the VM until its guest shuts down. When the context ends, the guest is asked to shut down within the newest config's
// powerdownTimeout and then ended. A guest's reboot does not end the run. When Run returns, QEMU and its helpers are gone;
// they are also gone if the process that called Run is killed. See ExitCode for what the results mean.
//
// What follows is the caller's to decide: a run that ended with EndGuest was ended by the guest itself, one that ended with
// EndPanicked by its kernel's failure, all other ends were asked for. Run must be called only once.
func (m *VM) Run(ctx context.Context) (End, error) {
	v := m.vm
	defer v.report.end()
	end, err := v.live(ctx)
	switch {
	case err != nil:
		v.report.happened(failed, ReasonFailed, err.Error())
	case end == EndPanicked:
		v.report.happened(ended, ReasonPanicked, "")
	default:
		v.report.happened(ended, string(end), "")
	}
	return end, err
}

// Status returns the newest status, and a channel that is closed when there is a newer one. Statuses that come too
// fast for the one who asks are left out, but never the last. Before Run the status has no state.
func (m *VM) Status() (Status, <-chan struct{}) {
	return m.vm.report.status.get()
}

// Events returns what happens to the VM, in order, each change of state among it. It is one stream, for one reader; if that
// is slow the oldest events are lost. It is closed when Run returns.
func (m *VM) Events() <-chan Event {
	return m.vm.report.events
}

// Metrics measures the VM. What cannot be measured is left out. Without a running QEMU the error is ErrNotRunning.
func (m *VM) Metrics(ctx context.Context) (Metrics, error) {
	g := m.vm.gauge.Load()
	if g == nil {
		return Metrics{}, ErrNotRunning
	}
	status, _ := m.Status()
	return g.measure(ctx, status.RAM)
}
