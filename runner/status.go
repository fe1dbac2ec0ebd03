package runner

import (
	"encoding/json"
	"time"

	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// Status is what a run of a VM is known to be at one moment. What it refers to is never changed afterwards.
type Status struct {
	// State is where the VM is in its life.
	State State
	// Reason is one word for why it is in that state: see the Reason constants.
	Reason string
	// Message explains the reason to people; empty if there is nothing to add.
	Message string
	// Since is when the VM came to be in that state, for that reason.
	Since time.Time
	// PID is QEMU's process id, 0 while there is none.
	PID int
	// QEMU is QEMU's version, empty until it is known.
	QEMU string
	// CPUs is the number of vCPUs that are plugged in, 0 without QEMU.
	CPUs int
	// RAM is what the guest has, in bytes: what the balloon leaves of it, and what virtio-mem adds. 0 without QEMU.
	RAM int64
	// IOError is the error that the guest is stopped for, nil if there is none.
	IOError *IOError
	// DisplayPasswordSerial is how many times the display's password was set in this run, -1 if the display has none.
	DisplayPasswordSerial int64
	// Booted tells what the running QEMU was started with, nil until the guest runs.
	Booted *BootedConfig
	// Resolved holds the chosen alternative of each choice, by the choice's name.
	Resolved map[string]map[string]string
	// Agent is how QEMU's guest agent is, Guest what it tells: nil unless it answers.
	Agent AgentState
	Guest *Guest
	// Login is what VM-Operator's agent tells about who is logged in to the guest.
	Login vmopagent.State
	// ConsoleClient is the host that the display is shown on, empty if it is not shown.
	ConsoleClient string
	// Pending are the fields of the config's live part that the VM does not comply with, sorted by field.
	Pending []PendingChange
	// Generation is that of the newest config that is followed: see Live.Generation.
	Generation int64
	// Reset is the live.reset that was last done, or was there at the start.
	Reset string
	// Resets counts the resets from outside in this run, Reboots those by the guest itself. A firmware may answer a reset with
	// further ones of its own.
	Resets, Reboots int
	// Imports are the disks that are filled in this run before QEMU is started, or were, in the order of that.
	Imports []Import
	// GuestError is the last thing that the guest told to have gone wrong: a panic, a watchdog. Empty if there was none.
	GuestError string
}

// Reasons of a Status. They are CamelCase words, as reasons of conditions in Kubernetes are, spelled as the API of VirtualMachines has
// always spelled them.
const (
	// ReasonStarting: Starting.
	ReasonStarting = "RunnerStarted"
	// ReasonStarted: Booting, since QEMU was set up.
	ReasonStarted = "VmStarted"
	// ReasonImporting: Starting, while disks are filled.
	ReasonImporting = "Importing"
	// ReasonImportFailed: Starting, until what a disk shall be filled with, or the time, is another one.
	ReasonImportFailed = "ImportFailed"
	// ReasonReset: Booting, since the guest rebooted or was reset.
	ReasonReset = "VmReset"
	// ReasonBooted: Booted.
	ReasonBooted = "VmBooted"
	// ReasonResumed: Booting or Booted, since the guest was let go on.
	ReasonResumed = "VmResumed"
	// ReasonIOError: Paused because a disk did not take or give data.
	ReasonIOError = "IOError"
	// ReasonPanicked: Paused, or Stopped, because the guest's kernel panicked.
	ReasonPanicked = "GuestPanicked"
	// ReasonWatchdog: Paused by the guest's watchdog.
	ReasonWatchdog = "Watchdog"
	// ReasonPaused: Paused by somebody or something else.
	ReasonPaused = "VmPaused"
	// ReasonTerminating: Terminating.
	ReasonTerminating = "VmTerminating"
	// ReasonFailed: Failed.
	ReasonFailed = "VmFailed"
)

// IOError is an error of a disk that stopped the guest.
type IOError struct {
	// Device is the id of the disk.
	Device string
	// Operation is "read" or "write".
	Operation string
	// NoSpace says that there was no space left.
	NoSpace bool
	// Reason is the error in words.
	Reason string
}

// Import is a disk that is filled.
type Import struct {
	// Disk is the disk's name.
	Disk string
	// Source is what it is filled with: an image, or a URL without its query.
	Source string
	// State is how far it is.
	State ImportState
	// Message is what has failed.
	Message string
	// Bytes is how much has been done of Total; that is 0 if it is not known. Rate is how much in a second.
	Bytes, Total, Rate int64
	// Begun is when it was begun, Took how long it took, 0 while it is not done.
	Begun time.Time
	Took  time.Duration
}

// ImportState is how far an import is.
type ImportState string

// The states of an import.
const (
	// Importing: it is under way.
	Importing ImportState = "Importing"
	// ImportFailed: it has failed, and is begun anew when something has changed.
	ImportFailed ImportState = "Failed"
	// Filled: the disk has the content.
	Filled ImportState = "Filled"
	// ContentKept: the disk had content, and was left alone.
	ContentKept ImportState = "Kept"
)

// Percent is how far the import is, -1 if that is not known.
func (i Import) Percent() int {
	if i.Total <= 0 {
		return -1
	}
	return int(min(100, i.Bytes*100/i.Total))
}

// Done says that nothing more is done about it.
func (i Import) Done() bool { return i.State == Filled || i.State == ContentKept }

// BootedConfig is the part of a config that QEMU was started with.
type BootedConfig struct {
	// Revision is the config's.
	Revision string
	// Why is the config's.
	Why map[string]json.RawMessage
}

// PendingChange is a field of the config's live part that the VM does not comply with.
type PendingChange struct {
	// Field is its path below live, for example "currentCpus" or "cdroms.cd0".
	Field string
	// Waiting says that it is up to the guest: to release a CPU, to open the tray. Otherwise QEMU, or what the
	// config refers to, refused. Both are tried again.
	Waiting bool
	// Message is what is waited for, or what was said.
	Message string
}

// Event is something that happened to a VM, for people.
type Event struct {
	Time time.Time
	// Warning says that something is not as it should be.
	Warning bool
	// Reason is one CamelCase word.
	Reason string
	// Message explains it.
	Message string
}
