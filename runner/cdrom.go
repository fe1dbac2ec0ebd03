package runner

import (
	"context"
	"maps"
)

// insertMedium puts a medium in an empty drive of a guest that does not run yet, and so has not locked the tray.
func (v *vm) insertMedium(ctx context.Context, id string, medium map[string]any) error {
	if medium == nil {
		return nil
	}
	node := "medium-" + id
	args := maps.Clone(medium)
	args["node-name"] = node
	if err := v.monitor.Execute(ctx, "blockdev-add", args, nil); err != nil {
		return err
	}
	if err := v.monitor.Execute(ctx, "blockdev-open-tray", map[string]string{"id": id}, nil); err != nil {
		return err
	}
	insert := map[string]string{"id": id, "node-name": node}
	if err := v.monitor.Execute(ctx, "blockdev-insert-medium", insert, nil); err != nil {
		return err
	}
	return v.monitor.Execute(ctx, "blockdev-close-tray", map[string]string{"id": id}, nil)
}
