package runner

import (
	"context"
	"maps"
	"slices"
)

// configure brings a new QEMU to what the config's live part says, before the guest runs. A guest that runs with less than it
// should have is of more use than none, so what fails is reported and the VM goes on.
func (v *vm) configure(ctx context.Context) {
	live := v.cfg.Live
	if err := v.plugCPUs(ctx, live.CurrentCPUs); err != nil {
		v.log.Warn("cannot plug in CPUs", "want", live.CurrentCPUs, "error", err)
	}
	if live.CurrentRAM > 0 {
		if err := v.monitor.Execute(ctx, "balloon", map[string]int64{"value": live.CurrentRAM}, nil); err != nil {
			v.log.Warn("cannot set the balloon", "ram", live.CurrentRAM, "error", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(live.CDROMs)) {
		if err := v.insertMedium(ctx, id, live.CDROMs[id]); err != nil {
			v.log.Warn("cannot insert medium", "drive", id, "error", err)
		}
	}
	if err := v.setPassword(ctx, live.Display); err != nil {
		v.log.Warn("cannot set the display's password", "error", err)
	}
}
