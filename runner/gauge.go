package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// gauge measures a running QEMU.
type gauge struct {
	pid     int
	monitor *qmp.Monitor
	taps    map[string]string
}

func (g *gauge) measure(ctx context.Context, ram int64) (Metrics, error) {
	m := Metrics{RAM: ram, QMP: g.monitor.Latency()}
	var err error
	if m.CPUTime, m.RSS, err = processUsage(g.pid); err != nil {
		return Metrics{}, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	var faults []error
	if m.Networks, err = g.networks(); err != nil {
		faults = append(faults, err)
	}
	if m.Disks, err = g.disks(ctx); err != nil {
		faults = append(faults, err)
	}
	return m, errors.Join(faults...)
}

// ticks is the kernel's USER_HZ, the unit of times in /proc, which is the same on all architectures that QEMU runs guests of.
const ticks = 100

// processUsage returns the CPU time and the resident memory of a process, see proc(5).
func processUsage(pid int) (time.Duration, int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name, in parentheses, may hold anything. After it come the fields from the third on.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	var numbers [3]int64
	for i, field := range []int{14, 15, 24} {
		if len(fields) <= field-3 {
			return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
		}
		if numbers[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	user, system, pages := numbers[0], numbers[1], numbers[2]
	return time.Duration(user+system) * time.Second / ticks, pages * int64(os.Getpagesize()), nil
}

// disks returns the counters of the devices that the config gave an id.
func (g *gauge) disks(ctx context.Context) (map[string]DiskMetrics, error) {
	var all []struct {
		QDev  string `json:"qdev"`
		Stats struct {
			ReadBytes     uint64        `json:"rd_bytes"`
			WrittenBytes  uint64        `json:"wr_bytes"`
			Reads         uint64        `json:"rd_operations"`
			Writes        uint64        `json:"wr_operations"`
			Flushes       uint64        `json:"flush_operations"`
			ReadTime      time.Duration `json:"rd_total_time_ns"`
			WriteTime     time.Duration `json:"wr_total_time_ns"`
			FlushTime     time.Duration `json:"flush_total_time_ns"`
			FailedReads   uint64        `json:"failed_rd_operations"`
			FailedWrites  uint64        `json:"failed_wr_operations"`
			FailedFlushes uint64        `json:"failed_flush_operations"`
		} `json:"stats"`
	}
	if err := g.monitor.Execute(ctx, "query-blockstats", nil, &all); err != nil {
		return nil, err
	}
	disks := make(map[string]DiskMetrics)
	for _, b := range all {
		if id := deviceID(b.QDev); id != "" && !strings.HasPrefix(id, "/") {
			s := b.Stats
			disks[id] = DiskMetrics{
				ReadBytes: s.ReadBytes, WrittenBytes: s.WrittenBytes,
				ReadOperations: s.Reads, WriteOperations: s.Writes, Flushes: s.Flushes,
				ReadTime: s.ReadTime, WriteTime: s.WriteTime, FlushTime: s.FlushTime,
				FailedReads: s.FailedReads, FailedWrites: s.FailedWrites, FailedFlushes: s.FailedFlushes,
			}
		}
	}
	return disks, nil
}

// networks returns the counters of the tap devices. What the guest sends is what the device receives.
func (g *gauge) networks() (map[string]NetworkMetrics, error) {
	if len(g.taps) == 0 {
		return nil, nil
	}
	// Unlike /sys/class/net, this is always of our own network namespace.
	f, err := os.Open("/proc/thread-self/net/dev")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	counters := make(map[string][]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, numbers, ok := strings.Cut(lines.Text(), ":"); ok {
			counters[strings.TrimSpace(name)] = strings.Fields(numbers)
		}
	}
	networks := make(map[string]NetworkMetrics)
	for fd, name := range g.taps {
		// Received bytes, packets, errors, dropped …, and the same from the ninth on as sent.
		c := counters[name]
		if len(c) < 12 {
			continue
		}
		at := func(i int) uint64 {
			n, _ := strconv.ParseUint(c[i], 10, 64)
			return n
		}
		networks[fd] = NetworkMetrics{
			SentBytes: at(0), SentPackets: at(1), SendDropped: at(3),
			ReceivedBytes: at(8), ReceivedPackets: at(9), ReceiveDropped: at(11),
		}
	}
	return networks, nil
}
