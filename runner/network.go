package runner

import (
	"context"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// network is the link of a network interface, which is up when a VM starts.
type network struct {
	monitor *qmp.Monitor
	id      string
	up      bool
}

func (n *network) apply(ctx context.Context, live *Live) error {
	up := live.Networks[n.id].Link != LinkDown
	if up == n.up {
		return nil
	}
	if err := n.monitor.Execute(ctx, "set_link", map[string]any{"name": n.id, "up": up}, nil); err != nil {
		return err
	}
	n.up = up
	return nil
}

func (n *network) wakes(qmp.Event) bool { return false }
