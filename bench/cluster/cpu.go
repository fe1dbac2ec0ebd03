package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tickTime is the unit of the times in proc_pid_stat(5), on every architecture that Linux runs VMs on.
const tickTime = 10 * time.Millisecond

// cpuTimes is how long the programs of this machine have been on a CPU, by name. What has ended counts for who waited for its end, as
// "name (ended)".
func cpuTimes() (map[string]time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	out := map[string]time.Duration{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			// It has ended.
			continue
		}
		name, own, ended, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		out[name] += own
		out[name+" (ended)"] += ended
	}
	return out, nil
}

// parseStat reads the name of a process, its time, and that of its children that have ended.
func parseStat(stat string) (name string, own, ended time.Duration, err error) {
	open, closed := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || closed < open {
		return "", 0, 0, fmt.Errorf("no name in %q", stat)
	}
	// utime, stime, cutime and cstime are the fields 14 to 17; the third one is the first after the name.
	const first = 3
	fields := strings.Fields(stat[closed+1:])
	if len(fields) <= 17-first {
		return "", 0, 0, fmt.Errorf("too few fields in %q", stat)
	}
	var ticks [4]int64
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[14-first+i], 10, 64); err != nil {
			return "", 0, 0, err
		}
	}
	return stat[open+1 : closed], time.Duration(ticks[0]+ticks[1]) * tickTime, time.Duration(ticks[2]+ticks[3]) * tickTime, nil
}

// printCPU prints which programs used most of the CPUs since before, for each of n VMs or pods.
func printCPU(before map[string]time.Duration, n int) error {
	after, err := cpuTimes()
	if err != nil {
		return err
	}
	used := map[string]time.Duration{}
	var all time.Duration
	for name, t := range after {
		if d := t - before[name]; d > 0 {
			used[name] = d / time.Duration(n)
			all += used[name]
		}
	}
	most := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return cmp.Compare(used[b], used[a]) })
	fmt.Printf("# %d created: %.0f ms of CPU each:", n, ms(all))
	for _, name := range most[:min(len(most), 10)] {
		fmt.Printf(" %s %.0f,", name, ms(used[name]))
	}
	fmt.Println(" …")
	return nil
}
