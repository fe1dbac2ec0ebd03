package runner

import (
	"context"
	"time"
)

// resume lets a guest go on that an I/O error has stopped, again and again with growing pauses, until it runs. What could not be
// written or read is tried again by QEMU. It ends with the context.
func (v *vm) resume(ctx context.Context) {
	var delay time.Duration
	for {
		status, changed := v.report.status.get()
		var wait <-chan time.Time
		if status.IOError == nil {
			delay = 0
		} else {
			delay = v.pace.after(delay)
			// A guest that goes on for as long as that has overcome the error.
			wait = time.After(v.pace.settle + delay)
			changed = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			continue
		case <-wait:
		}
		if status, _ := v.report.status.get(); status.IOError == nil {
			continue
		}
		v.log.Debug("letting the guest go on", "after", delay)
		if err := v.monitor.Execute(ctx, "cont", nil, nil); err != nil {
			v.log.Warn("cannot let the guest go on", "error", err)
		}
	}
}
