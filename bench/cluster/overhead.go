package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// overheads are what the pods of VMs have in memory beyond the RAM of their guests, in MiB.
func (b *bench) overheads(ctx context.Context, names []string) ([]float64, error) {
	var out []float64
	for _, name := range names {
		p, err := b.api.Resource(podResource).Namespace(namespace).Get(ctx, name+"-0", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		group, err := podCgroup(string(p.GetUID()))
		if err != nil {
			return nil, err
		}
		used, err := workingSet(group)
		if err != nil {
			return nil, err
		}
		guest, err := guestRAM(group)
		if err != nil {
			return nil, err
		}
		out = append(out, float64(used-guest)/(1<<20))
	}
	return out, nil
}

// podCgroup finds the directory of a pod's memory cgroup, of v1 or v2: kubelet names it after the pod's UID.
func podCgroup(uid string) (string, error) {
	var found string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		// Groups come and go.
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // see above
		}
		if _, err := os.Stat(filepath.Join(path, "memory.stat")); err == nil && d.Name() == "pod"+uid {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = fmt.Errorf("the pod %s has no memory cgroup", uid)
	}
	return found, err
}

// workingSet is what kubelet takes for the memory of a pod: all but file pages that can go at once
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction).
func workingSet(group string) (int64, error) {
	usage, inactive := "memory.usage_in_bytes", "total_inactive_file"
	if _, err := os.Stat(filepath.Join(group, usage)); err != nil {
		usage, inactive = "memory.current", "inactive_file"
	}
	text, err := os.ReadFile(filepath.Join(group, usage))
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s of %s: %w", usage, group, err)
	}
	if text, err = os.ReadFile(filepath.Join(group, "memory.stat")); err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, inactive+" %d", &n); err == nil {
			return used - n, nil
		}
	}
	return 0, fmt.Errorf("memory.stat of %s has no %s", group, inactive)
}

// guestRAM is how much of its guest's RAM QEMU has in memory.
func guestRAM(group string) (int64, error) {
	var found int64 = -1
	err := filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, pid := range strings.Fields(string(text)) {
			comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			if err != nil {
				return err
			}
			if !strings.HasPrefix(string(comm), "qemu-system") {
				continue
			}
			if found, err = mappingRSS(filepath.Join("/proc", pid, "smaps"), ram); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && found < 0 {
		err = errors.New("a pod has no QEMU")
	}
	return found, err
}

// mappingRSS is how much of the one mapping of a size is in memory (proc_pid_smaps(5)).
func mappingRSS(smaps string, size int64) (int64, error) {
	f, err := os.Open(smaps)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var of int64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "Size: %d kB", &n); err == nil {
			of = n << 10
		}
		if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &n); err == nil && of == size {
			return n << 10, nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s has no mapping of %d bytes", smaps, size)
}
