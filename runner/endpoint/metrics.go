package endpoint

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// states are all that a VM can be in.
var states = []runner.State{
	runner.Starting, runner.Booting, runner.Booted, runner.Paused, runner.Terminating, runner.Stopped, runner.Failed,
}

// measure writes what can be measured. What cannot is left out, so that a graph has a gap and no zero.
func measure(ctx context.Context, source Source, version string) []byte {
	var t text
	s, _ := source.Status()
	t.status(s, version)
	if m, err := source.Metrics(ctx); err == nil {
		t.qemu(m)
		t.disks(m.Disks)
		t.networks(m.Networks)
		t.latency(m.QMP)
	}
	t.process()
	return t.Bytes()
}

func (t *text) status(s runner.Status, version string) {
	t.head("cuvee_runner_info", gauge, "The versions of the runner and of QEMU.")
	t.sample("cuvee_runner_info", 1, label{"version", version}, label{"qemu", s.QEMU})
	t.head("cuvee_vm_state", gauge, "1 for the state that the VM is in.")
	for _, state := range states {
		value := 0.0
		if state == s.State {
			value = 1
		}
		t.sample("cuvee_vm_state", value, label{"state", string(state)})
	}
	if !s.Since.IsZero() {
		t.single("cuvee_vm_state_since_seconds", gauge, "When the VM came to be in its state, in seconds since 1970.", float64(s.Since.UnixMilli())/1000)
	}
	t.single("cuvee_vm_cpus", gauge, "The CPUs that the guest has.", float64(s.CPUs))
	t.single("cuvee_vm_memory_bytes", gauge, "The RAM that the balloon leaves to the guest.", float64(s.RAM))
	t.single("cuvee_vm_resets_total", counter, "Resets of the guest from outside.", float64(s.Resets))
	t.single("cuvee_vm_reboots_total", counter, "Resets of the guest by itself.", float64(s.Reboots))
	t.imports(s.Imports)
	t.agents(s)
	t.single("cuvee_vm_pending_changes", gauge, "Fields of the configuration that the running VM does not comply with yet.", float64(len(s.Pending)))
}

// imports tells about the disks that are filled before the start.
func (t *text) imports(all []runner.Import) {
	if len(all) == 0 {
		return
	}
	add := func(name, help string, value func(runner.Import) float64) {
		t.head(name, gauge, help)
		for _, i := range all {
			t.sample(name, value(i), label{"disk", i.Disk})
		}
	}
	add("cuvee_runner_import_bytes", "Bytes that a disk has been filled with before the start.", func(i runner.Import) float64 { return float64(i.Bytes) })
	add("cuvee_runner_import_size_bytes", "Bytes that it will be filled with; 0 while that is not known.", func(i runner.Import) float64 { return float64(i.Total) })
	add("cuvee_runner_import_seconds", "How long that took; 0 while it is not done.", func(i runner.Import) float64 { return i.Took.Seconds() })
	t.head("cuvee_runner_import_state", gauge, "1 for how far that is: Importing, Failed, Filled, or Kept where there was content.")
	for _, i := range all {
		t.sample("cuvee_runner_import_state", 1, label{"disk", i.Disk}, label{"state", string(i.State)})
	}
}

// agents tells about the agents in the guest, and who uses it.
func (t *text) agents(s runner.Status) {
	is := func(name, help string, holds bool) {
		value := 0.0
		if holds {
			value = 1
		}
		t.single(name, gauge, help, value)
	}
	is("cuvee_vm_guest_agent_connected", "1 if QEMU's guest agent answers.", s.Agent == runner.AgentAnswers)
	is("cuvee_vm_vmop_agent_connected", "1 if VM-Operator's agent runs in the guest.", s.Login.Connected)
	is("cuvee_vm_user_logged_in", "1 if the agent has logged a user in.", s.Login.User != "")
	is("cuvee_vm_console_connected", "1 if a client shows the display.", s.ConsoleClient != "")
	if g := s.Guest; g != nil {
		t.head("cuvee_vm_guest_info", gauge, "What the guest's agent tells of its operating system.")
		t.sample("cuvee_vm_guest_info", 1, label{"agent", g.AgentVersion}, label{"os", g.OS.ID}, label{"version", g.OS.VersionID}, label{"kernel", g.OS.KernelRelease})
	}
}

func (t *text) qemu(m runner.Metrics) {
	t.single("cuvee_qemu_cpu_seconds_total", counter, "CPU time of QEMU, with that of the guest.", m.CPUTime.Seconds())
	t.single("cuvee_qemu_resident_memory_bytes", gauge, "The memory of QEMU's process, with what the guest uses.", float64(m.RSS))
}

func (t *text) disks(d map[string]runner.DiskMetrics) {
	type m = runner.DiskMetrics
	add := func(name, help string, value func(m) float64) {
		each(t, "cuvee_disk_"+name+"_total", help, "disk", d, value)
	}
	add("read_bytes", "Bytes that the guest read.", func(m m) float64 { return float64(m.ReadBytes) })
	add("written_bytes", "Bytes that the guest wrote.", func(m m) float64 { return float64(m.WrittenBytes) })
	add("reads", "Read operations of the guest.", func(m m) float64 { return float64(m.ReadOperations) })
	add("writes", "Write operations of the guest.", func(m m) float64 { return float64(m.WriteOperations) })
	add("flushes", "Flush operations of the guest.", func(m m) float64 { return float64(m.Flushes) })
	add("read_seconds", "Time that read operations took.", func(m m) float64 { return m.ReadTime.Seconds() })
	add("write_seconds", "Time that write operations took.", func(m m) float64 { return m.WriteTime.Seconds() })
	add("flush_seconds", "Time that flush operations took.", func(m m) float64 { return m.FlushTime.Seconds() })
	add("failed_reads", "Read operations that failed.", func(m m) float64 { return float64(m.FailedReads) })
	add("failed_writes", "Write operations that failed.", func(m m) float64 { return float64(m.FailedWrites) })
	add("failed_flushes", "Flush operations that failed.", func(m m) float64 { return float64(m.FailedFlushes) })
}

func (t *text) networks(n map[string]runner.NetworkMetrics) {
	type m = runner.NetworkMetrics
	add := func(name, help string, value func(m) float64) {
		each(t, "cuvee_network_"+name+"_total", help, "interface", n, value)
	}
	add("received_bytes", "Bytes that the guest received.", func(m m) float64 { return float64(m.ReceivedBytes) })
	add("sent_bytes", "Bytes that the guest sent.", func(m m) float64 { return float64(m.SentBytes) })
	add("received_packets", "Packets that the guest received.", func(m m) float64 { return float64(m.ReceivedPackets) })
	add("sent_packets", "Packets that the guest sent.", func(m m) float64 { return float64(m.SentPackets) })
	add("receive_dropped", "Packets for the guest that were dropped.", func(m m) float64 { return float64(m.ReceiveDropped) })
	add("send_dropped", "Packets of the guest that were dropped.", func(m m) float64 { return float64(m.SendDropped) })
}

func (t *text) latency(l qmp.Latency) {
	const name = "cuvee_qmp_reply_seconds"
	t.head(name, histogram, "How long QEMU took to answer the runner.")
	for i, bound := range qmp.LatencyBounds {
		t.sample(name+"_bucket", float64(l.Buckets[i]), label{"le", strconv.FormatFloat(bound.Seconds(), 'g', -1, 64)})
	}
	t.sample(name+"_bucket", float64(l.Count), label{"le", "+Inf"})
	t.sample(name+"_sum", l.Sum.Seconds())
	t.sample(name+"_count", float64(l.Count))
	t.single("cuvee_qmp_unanswered_total", counter, "Commands that QEMU did not answer in time.", float64(l.Unanswered))
}

// process tells about the runner itself, by the names that Prometheus' libraries have for it.
func (t *text) process() {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		seconds := float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
		t.single("process_cpu_seconds_total", counter, "CPU time of the runner.", seconds)
	}
	if resident, ok := residentMemory(); ok {
		t.single("process_resident_memory_bytes", gauge, "The memory of the runner.", resident)
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		// One of them is for reading the directory.
		t.single("process_open_fds", gauge, "Open files of the runner.", float64(len(fds)-1))
	}
	t.single("go_goroutines", gauge, "Goroutines of the runner.", float64(runtime.NumGoroutine()))
}

// residentMemory is the second number of proc_pid_statm(5), in bytes.
func residentMemory() (float64, bool) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err == nil
}
