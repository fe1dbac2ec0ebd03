package runner

import "errors"

// Exit codes of a command that runs one VM.
//
//	0  ExitStopped  the guest shut down, by itself or on request within the timeout, or the start was called off
//	1  ExitFailed   the VM could not be prepared or set up; nothing ran
//	3  ExitRefused  QEMU refused to start: an option, a file, a disk in use
//	4  ExitForced   the guest did not shut down in time, or its end was forced
//	5  ExitCrashed  QEMU ended by itself
//	6  ExitPanicked the guest's kernel panicked, and QEMU ended for that
//
// 2 is left to commands for errors in their usage.
const (
	ExitStopped  = 0
	ExitFailed   = 1
	ExitRefused  = 3
	ExitForced   = 4
	ExitCrashed  = 5
	ExitPanicked = 6
)

// ErrRefused says that QEMU ended before the guest was started. The error that wraps it has what QEMU said.
var ErrRefused = errors.New("QEMU refused to start")

// ErrCrashed says that QEMU ended by itself while the guest ran.
var ErrCrashed = errors.New("QEMU ended by itself")

// End is how a VM's run ended.
type End string

// The ends. A run that ends with an error has none of them.
const (
	// EndGuest: the guest shut itself down.
	EndGuest End = "GuestShutdown"
	// EndRequested: the guest shut down on request, in time.
	EndRequested End = "PoweredDown"
	// EndCalledOff: the stop came before the guest was started.
	EndCalledOff End = "CalledOff"
	// EndForced: QEMU was ended with a guest that had not shut down.
	EndForced End = "Forced"
	// EndPanicked: the guest's kernel panicked, and QEMU ended for that.
	EndPanicked End = "GuestPanicked"
)

// ExitCode returns the exit code for what Run returned.
func ExitCode(end End, err error) int {
	switch {
	case errors.Is(err, ErrCrashed):
		return ExitCrashed
	case errors.Is(err, ErrRefused):
		return ExitRefused
	case err != nil:
		return ExitFailed
	case end == EndForced:
		return ExitForced
	case end == EndPanicked:
		return ExitPanicked
	default:
		return ExitStopped
	}
}
