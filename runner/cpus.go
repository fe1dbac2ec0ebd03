package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// cpuSlot is one element of query-hotpluggable-cpus.
type cpuSlot struct {
	Type  string         `json:"type"`
	Props map[string]any `json:"props"`
	// Path is there if there is a CPU in the slot.
	Path string `json:"qom-path"`
	// Count is the number of vCPUs in the slot.
	Count int `json:"vcpus-count"`
}

// plugCPUs plugs in CPUs until there are as many as wanted.
func (v *vm) plugCPUs(ctx context.Context, want int) error {
	if want <= 1 {
		return nil
	}
	var slots []cpuSlot
	if err := v.monitor.Execute(ctx, "query-hotpluggable-cpus", nil, &slots); err != nil {
		return err
	}
	// QEMU lists the last slot first.
	slices.Reverse(slots)
	have, used := 0, make(map[string]bool)
	for _, s := range slots {
		if s.Path != "" {
			have += s.Count
			used[s.Path] = true
		}
	}
	for _, s := range slots {
		if s.Path != "" || have >= want {
			continue
		}
		device := maps.Clone(s.Props)
		device["driver"], device["id"] = s.Type, freeID(used)
		if err := v.monitor.Execute(ctx, "device_add", device, nil); err != nil {
			return fmt.Errorf("after %d: %w", have, err)
		}
		have += s.Count
	}
	if have < want {
		return fmt.Errorf("there are slots for %d only", have)
	}
	return nil
}

// freeID returns the first id "cpu-<k>" that no CPU has, and marks it as used.
func freeID(used map[string]bool) string {
	for k := 1; ; k++ {
		id := fmt.Sprintf("cpu-%d", k)
		if path := "/machine/peripheral/" + id; !used[path] {
			used[path] = true
			return id
		}
	}
}
