package runner

import (
	"slices"
)

// State is where a VM is in its life.
type State string

// The states of a VM. How one follows another is in the table life, and in docs/runner.md.
const (
	// Starting: what QEMU needs is prepared, QEMU is started and set up. The guest does not run.
	Starting State = "Starting"
	// Booting: the guest runs.
	Booting State = "Booting"
	// Booted: the guest runs, and its agent has answered.
	Booted State = "Booted"
	// Paused: QEMU has stopped the guest, for example because of an I/O error, and it may go on.
	Paused State = "Paused"
	// Terminating: the guest has been asked to shut down.
	Terminating State = "Terminating"
	// Stopped: QEMU is gone, and nothing has failed.
	Stopped State = "Stopped"
	// Failed: QEMU is gone, or was never there, because of an error.
	Failed State = "Failed"
)

// before stands for the state that a Paused VM was in.
const before State = "the state before"

// occurrence is something in the life of a VM that may change its state.
type occurrence string

const (
	guestStarted  occurrence = "QEMU is set up"
	agentAnswered occurrence = "the guest's agent answers"
	guestStopped  occurrence = "QEMU stops the guest"
	guestResumed  occurrence = "QEMU lets the guest run again"
	guestReset    occurrence = "the guest reboots or is reset"
	stopRequested occurrence = "a stop is requested"
	ended         occurrence = "QEMU has ended"
	failed        occurrence = "something fails"
)

// transition is a row of the table of a VM's life.
type transition struct {
	from []State
	on   occurrence
	to   State
	// does is what the runner does then, for the document.
	does string
}

// life is the table of a VM's life. What is not in it changes no state.
var life = []transition{
	{[]State{Starting}, guestStarted, Booting,
		"`cont`; from now on the config's `live` part is followed"},
	{[]State{Booting}, agentAnswered, Booted,
		"nothing"},
	{[]State{Booted}, guestReset, Booting,
		"nothing: the same QEMU goes on"},
	{[]State{Booting, Booted}, guestStopped, Paused,
		"after an I/O error: `cont`, again and again with growing pauses; else nothing"},
	{[]State{Paused}, guestResumed, before,
		"nothing"},
	{[]State{Booting, Booted, Paused}, stopRequested, Terminating,
		"lets a Paused guest go on; asks its agent, if that answers, to shut it down; after 10 s, or at once, `system_powerdown` every 3 s until `powerdownTimeout` is over, then `quit`, after 5 s SIGKILL"},
	{[]State{Starting, Booting, Booted, Paused, Terminating}, ended, Stopped,
		"what ends with the VM is removed; `Run` returns how it ended"},
	{[]State{Starting, Booting, Booted, Paused, Terminating}, failed, Failed,
		"QEMU is killed, what ends with the VM is removed; `Run` returns the error"},
}

// next returns the state that follows one when something happens, and whether that is another one.
func (s State) next(on occurrence) (State, bool) {
	for _, t := range life {
		if t.on == on && slices.Contains(t.from, s) {
			return t.to, true
		}
	}
	return s, false
}
