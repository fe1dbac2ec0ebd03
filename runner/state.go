package runner

// State is where a VM is in its life.
type State string

// The states of a VM, in order.
const (
	// Starting: what QEMU needs is prepared, QEMU is started and set up. The guest does not run.
	Starting State = "Starting"
	// Booting: the guest runs.
	Booting State = "Booting"
	// Terminating: the guest has been asked to shut down.
	Terminating State = "Terminating"
	// Stopped: QEMU is gone.
	Stopped State = "Stopped"
)
