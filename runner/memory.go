package runner

import (
	"context"
	"fmt"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// balloon is what a guest may keep of the RAM that it was started with.
type balloon struct {
	monitor *qmp.Monitor
	report  *report
	// done is the size that was asked for last, or that the guest began with.
	done int64
	// counted says that it is known how much RAM the guest has.
	counted bool
}

func (b *balloon) apply(ctx context.Context, live *Live) error {
	if !b.counted {
		if err := b.count(ctx); err != nil {
			return err
		}
	}
	if live.CurrentRAM == b.done {
		return nil
	}
	if live.CurrentRAM > 0 {
		if err := b.monitor.Execute(ctx, "balloon", map[string]int64{"value": live.CurrentRAM}, nil); err != nil {
			return err
		}
	}
	b.done = live.CurrentRAM
	return nil
}

// count learns what the guest begins with. Later changes are told by events.
func (b *balloon) count(ctx context.Context) error {
	var size struct {
		Base int64 `json:"base-memory"`
	}
	if err := b.monitor.Execute(ctx, "query-memory-size-summary", nil, &size); err != nil {
		return err
	}
	b.report.setRAM(ramBase, size.Base)
	// A guest has all of it until somebody takes some, so that a start need not ask for that.
	b.done, b.counted = size.Base, true
	return nil
}

func (b *balloon) wakes(qmp.Event) bool { return false }

// memory is a virtio-mem device, which gives a guest RAM beyond what it was started with.
type memory struct {
	monitor *qmp.Monitor
	report  *report
	id      string
	done    int64
}

func (m *memory) apply(ctx context.Context, live *Live) error {
	want := live.Memory[m.id]
	if want != m.done {
		args := map[string]any{"path": peripheral + m.id, "property": "requested-size", "value": want}
		if err := m.monitor.Execute(ctx, "qom-set", args, nil); err != nil {
			return err
		}
		m.done = want
	}
	var size int64
	args := map[string]any{"path": peripheral + m.id, "property": "size"}
	if err := m.monitor.Execute(ctx, "qom-get", args, &size); err != nil {
		return err
	}
	m.report.setRAM(m.id, size)
	if size != want {
		return waiting(fmt.Sprintf("the guest has taken %d of %d bytes", size, want))
	}
	return nil
}

func (m *memory) wakes(e qmp.Event) bool {
	return e.Event == "MEMORY_DEVICE_SIZE_CHANGE" && e.Data["id"] == m.id
}
