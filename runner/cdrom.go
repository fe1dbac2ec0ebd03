package runner

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// cdrom is the medium in a CD drive. It is changed when the config has another one, and only then: what the guest
// ejects is not put back.
type cdrom struct {
	monitor *qmp.Monitor
	id      string
	// done is the medium that was put in last, nil for an empty drive.
	done map[string]any
	// next is the medium that is ready as the node to be put in, while the guest has the tray locked.
	next map[string]any
	node string
	// serial makes the nodes' names.
	serial int
}

func (c *cdrom) apply(ctx context.Context, live *Live) error {
	want := live.CDROMs[c.id]
	if reflect.DeepEqual(want, c.done) {
		return c.drop(ctx)
	}
	drive, err := findBlockDevice(ctx, c.monitor, c.id)
	if err != nil {
		return err
	}
	// A medium that cannot be had is noticed before the guest loses the one that it has.
	if err := c.ready(ctx, want); err != nil {
		return err
	}
	if err := c.open(ctx, drive); err != nil {
		return err
	}
	if err := c.change(ctx, drive); err != nil {
		return err
	}
	c.done, c.next, c.node = want, nil, ""
	return nil
}

// ready makes a node of the medium.
func (c *cdrom) ready(ctx context.Context, want map[string]any) error {
	if c.node != "" && reflect.DeepEqual(want, c.next) {
		return nil
	}
	if err := c.drop(ctx); err != nil || want == nil {
		return err
	}
	c.serial++
	args := maps.Clone(want)
	node := fmt.Sprintf("%s-medium-%d", c.id, c.serial)
	args["node-name"] = node
	if err := c.monitor.Execute(ctx, "blockdev-add", args, nil); err != nil {
		return err
	}
	c.next, c.node = want, node
	return nil
}

// drop removes a node that has not been put in and is not wanted any more.
func (c *cdrom) drop(ctx context.Context) error {
	if c.node == "" {
		return nil
	}
	if err := c.remove(ctx, c.node); err != nil {
		return err
	}
	c.next, c.node = nil, ""
	return nil
}

// open opens the tray, or asks the guest to, if that has locked it.
func (c *cdrom) open(ctx context.Context, drive *blockDevice) error {
	if drive.TrayOpen {
		return nil
	}
	err := c.monitor.Execute(ctx, "blockdev-open-tray", map[string]string{"id": c.id}, nil)
	if err != nil || !drive.Locked {
		return err
	}
	// For a locked tray QEMU has only passed the wish on, and says no word about it.
	now, err := findBlockDevice(ctx, c.monitor, c.id)
	if err == nil && !now.TrayOpen {
		return waiting("the guest has locked the tray")
	}
	return err
}

// change puts the medium that is ready, if any, in the place of the one that is there, and closes the tray.
func (c *cdrom) change(ctx context.Context, drive *blockDevice) error {
	id := map[string]string{"id": c.id}
	if old := drive.Inserted; old != nil {
		if err := c.monitor.Execute(ctx, "blockdev-remove-medium", id, nil); err != nil {
			return err
		}
		if err := c.remove(ctx, old.Node); err != nil {
			return err
		}
	}
	if c.node != "" {
		insert := map[string]string{"id": c.id, "node-name": c.node}
		if err := c.monitor.Execute(ctx, "blockdev-insert-medium", insert, nil); err != nil {
			return err
		}
	}
	return c.monitor.Execute(ctx, "blockdev-close-tray", id, nil)
}

func (c *cdrom) remove(ctx context.Context, node string) error {
	return c.monitor.Execute(ctx, "blockdev-del", map[string]string{"node-name": node}, nil)
}

// wakes is true when the guest has opened the tray, for a change that waits for it. Apply does nothing without one.
func (c *cdrom) wakes(e qmp.Event) bool {
	return e.Event == "DEVICE_TRAY_MOVED" && e.Data["id"] == c.id && e.Data["tray-open"] == true
}
