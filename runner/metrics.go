package runner

import (
	"errors"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// ErrNotRunning says that there is no QEMU to ask.
var ErrNotRunning = errors.New("VM does not run")

// Metrics are measurements of a running VM. Counters begin at zero when QEMU is started.
type Metrics struct {
	// CPUTime is what QEMU has used, for the guest and for itself.
	CPUTime time.Duration
	// RSS is the memory of QEMU's process, in bytes.
	RSS int64
	// RAM is what the guest has, in bytes, as in Status.
	RAM int64
	// Disks by id of the device.
	Disks map[string]DiskMetrics
	// Networks by name of the tap device's file descriptor in the config. User networks have no counters.
	Networks map[string]NetworkMetrics
	// QMP is how long QEMU took to answer.
	QMP qmp.Latency
}

// DiskMetrics count what a guest did with a disk.
type DiskMetrics struct {
	ReadBytes, WrittenBytes                  uint64
	ReadOperations, WriteOperations, Flushes uint64
	ReadTime, WriteTime, FlushTime           time.Duration
	FailedReads, FailedWrites, FailedFlushes uint64
}

// NetworkMetrics count what passed a network interface, as the guest sees it.
type NetworkMetrics struct {
	ReceivedBytes, SentBytes     uint64
	ReceivedPackets, SentPackets uint64
	ReceiveDropped, SendDropped  uint64
}
