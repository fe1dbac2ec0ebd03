package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// cpus are the CPUs that are plugged in, of those that the machine has slots for.
type cpus struct {
	monitor *qmp.Monitor
	report  *report
}

// cpuSlot is one element of query-hotpluggable-cpus.
type cpuSlot struct {
	Type  string         `json:"type"`
	Props map[string]any `json:"props"`
	// Path is there if there is a CPU in the slot.
	Path string `json:"qom-path"`
	// Count is the number of vCPUs in the slot.
	Count int `json:"vcpus-count"`
}

// cpuPath is where the CPUs that were plugged in by a runner are.
const cpuPath = peripheral + "cpu-"

func (c *cpus) apply(ctx context.Context, live *Live) error {
	var slots []cpuSlot
	if err := c.monitor.Execute(ctx, "query-hotpluggable-cpus", nil, &slots); err != nil {
		if live.CurrentCPUs <= 1 {
			// A machine whose CPUs are fixed.
			return nil
		}
		return err
	}
	// QEMU lists the last slot first.
	slices.Reverse(slots)
	have := 0
	for _, s := range slots {
		if s.Path != "" {
			have += s.Count
		}
	}
	defer func() { c.report.update(func(s *Status) { s.CPUs = have }) }()
	switch want := max(live.CurrentCPUs, 1); {
	case have < want:
		plugged, err := c.plug(ctx, slots, want-have)
		have += plugged
		return err
	case have > want:
		return c.unplug(ctx, slots, have-want)
	}
	return nil
}

// plug adds vCPUs, and returns how many it has added.
func (c *cpus) plug(ctx context.Context, slots []cpuSlot, want int) (int, error) {
	used := make(map[string]bool)
	for _, s := range slots {
		used[s.Path] = true
	}
	plugged := 0
	for _, s := range slots {
		if s.Path != "" || plugged >= want {
			continue
		}
		device := maps.Clone(s.Props)
		device["driver"], device["id"] = s.Type, freeID(used)
		if err := c.monitor.Execute(ctx, "device_add", device, nil); err != nil {
			return plugged, fmt.Errorf("%d more: %w", want-plugged, err)
		}
		plugged += s.Count
	}
	if plugged < want {
		return plugged, fmt.Errorf("no slots for %d more", want-plugged)
	}
	return plugged, nil
}

// unplug asks the guest to release vCPUs, the last ones first. That they are gone is told by an event.
func (c *cpus) unplug(ctx context.Context, slots []cpuSlot, surplus int) error {
	var asked []string
	for _, s := range slices.Backward(slots) {
		id, ours := strings.CutPrefix(s.Path, peripheral)
		if !ours || !strings.HasPrefix(s.Path, cpuPath) || surplus < s.Count {
			continue
		}
		if err := c.monitor.Execute(ctx, "device_del", map[string]string{"id": id}, nil); err != nil {
			return fmt.Errorf("%d less: %w", surplus, err)
		}
		asked = append(asked, id)
		surplus -= s.Count
	}
	if surplus > 0 {
		return fmt.Errorf("%d CPUs cannot be taken out", surplus)
	}
	return waiting("the guest has not released " + strings.Join(asked, ", ") + " yet")
}

func (c *cpus) wakes(e qmp.Event) bool {
	path, _ := e.Data["path"].(string)
	return e.Event == "DEVICE_DELETED" && strings.HasPrefix(path, cpuPath)
}

// freeID returns the first id "cpu-<k>" that no CPU has, and marks it as used.
func freeID(used map[string]bool) string {
	for k := 1; ; k++ {
		id := fmt.Sprintf("cpu-%d", k)
		if path := peripheral + id; !used[path] {
			used[path] = true
			return id
		}
	}
}
