// Package proc reads what the kernel says of a process.
package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPUTime is how long all threads of a process have been on a CPU
// (https://docs.kernel.org/scheduler/sched-stats.html). It has the resolution of the scheduler, and
// not that of the clock's ticks, of which an idle process may use none.
func CPUTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("process %d has no schedstat", pid)
	}
	var sum time.Duration
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		running, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(running, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// Memory is what a process has in memory of its own and of files, in bytes: now, and at its highest (proc_pid_status(5)).
func Memory(pid int) (now, highest int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*int64{"VmRSS": &now, "VmHWM": &highest}[name]
		if to == nil {
			continue
		}
		if _, err := fmt.Sscanf(value, "%d kB", to); err != nil {
			return 0, 0, fmt.Errorf("read %s of process %d: %w", name, pid, err)
		}
		*to <<= 10
	}
	if now == 0 || highest == 0 {
		return 0, 0, fmt.Errorf("process %d has no memory", pid)
	}
	return now, highest, nil
}
