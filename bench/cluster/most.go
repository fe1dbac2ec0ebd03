package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spare is the memory that stays free, in kB: beyond, the machine would be in trouble, and not only the VM.
const spare = 2 << 20

// measureMost starts VMs, some at a time, until there are so many, or one has no place.
func (b *bench) measureMost(ctx context.Context, most int) error {
	var run int
	ended := fmt.Sprintf("no more than %d were asked for", most)
	for some := range slices.Chunk(names("most", most), 5) {
		free, err := availableMemory()
		if err != nil {
			return err
		}
		if free < spare {
			ended = fmt.Sprintf("the machine has %d MiB of memory left", free>>10)
			break
		}
		starts, err := b.startVMs(ctx, some)
		if err != nil {
			n, countErr := b.running(ctx)
			if countErr != nil {
				return countErr
			}
			run, ended = n, fmt.Sprintf("another one does not run: %v", err)
			break
		}
		run += len(starts)
	}
	fmt.Printf("# cluster.max_vms: %s\n", ended)
	fmt.Printf("figure cluster.max_vms %d VMs\n", run)
	return nil
}

// running is how many VMs run.
func (b *bench) running(ctx context.Context) (int, error) {
	list, err := b.api.Resource(vmResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range list.Items {
		if has(&list.Items[i], "Running") {
			n++
		}
	}
	return n, nil
}

// availableMemory is what the machine could give to new programs, in kB (proc_meminfo(5)).
func availableMemory() (int, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for {
		var name, unit string
		var n int
		if _, err := fmt.Fscanln(f, &name, &n, &unit); err != nil && name == "" {
			return 0, fmt.Errorf("read /proc/meminfo: %w", err)
		}
		if name == "MemAvailable:" {
			return n, nil
		}
	}
}
