package runner

import (
	"context"
	"fmt"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// Names of the file descriptors that agents in the guest are spoken with over.
const (
	// FDGuestAgent is QEMU's guest agent.
	FDGuestAgent = "guest-agent"
	// FDVmopAgent is VM-Operator's agent.
	FDVmopAgent = "vmop-agent"
)

// agentPort is the virtio-serial port that an agent has in its guest. An agent is there while the guest has its port open.
type agentPort struct {
	// chardev and device are the ids that the config gave them, empty if there is none.
	chardev, device string
}

// agentPort finds the port that a file descriptor leads to.
func (b Boot) agentPort(fd string) agentPort {
	var p agentPort
	for _, a := range b.Args {
		object, _ := a.Keys["fd"].(map[string]any)
		if r, ok := asReference(object); ok && a.Option == "chardev" && r.fd && r.name == fd {
			p.chardev, _ = a.Keys["id"].(string)
		}
	}
	if p.chardev == "" {
		return p
	}
	for _, a := range b.Args {
		if a.Option == "device" && a.JSON["chardev"] == p.chardev {
			p.device, _ = a.JSON["id"].(string)
		}
	}
	return p
}

// change tells whether an event is about the port, and whether it was opened. QEMU tells at most one change a second, the last one, so a
// port may be opened twice.
func (p agentPort) change(e qmp.Event) (open, ours bool) {
	if e.Event != "VSERPORT_CHANGE" {
		return false, false
	}
	var data struct {
		ID   string `json:"id"`
		Open bool   `json:"open"`
	}
	return decode(e, &data) && data.Open, data.ID == p.device && data.ID != ""
}

// isOpen asks QEMU whether the guest has the port open.
func (p agentPort) isOpen(ctx context.Context, monitor *qmp.Monitor) (bool, error) {
	var all []struct {
		Label string `json:"label"`
		Open  bool   `json:"frontend-open"`
	}
	if err := monitor.Execute(ctx, "query-chardev", nil, &all); err != nil {
		return false, err
	}
	for _, c := range all {
		if c.Label == p.chardev {
			return c.Open, nil
		}
	}
	return false, fmt.Errorf("QEMU has no chardev %q", p.chardev)
}
