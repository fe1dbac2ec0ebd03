package cluster

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// leastRun is how long a VM shall run at least before another run of it begins, so that a guest that shuts down at
// once keeps no cluster busy.
const leastRun = 10 * time.Second

// GuestShutdown is what follows when a guest has shut itself down.
type GuestShutdown struct {
	Client *Client
	VM     VM
	Pod    Pod
	// Stops says that the VM shall then be stopped, otherwise it is to be started again.
	Stops bool
	// Ran is how long the VM had run.
	Ran time.Duration
	Log *slog.Logger

	pace     pace
	leastRun time.Duration
}

// Follow does it, and waits until the context ends: the end of the pod is what is asked for either way.
//
// A VM that stops is marked as stopped. Its pod is deleted only if somebody wants it to run again before the manager
// has removed the pod. A VM that is to be started again needs another pod: in this one kubelet would start the same
// template again.
func (g GuestShutdown) Follow(ctx context.Context) {
	if g.pace == (pace{}) {
		g.pace, g.leastRun = defaultPace, leastRun
	}
	if g.Stops {
		if !retry(ctx, g.pace, g.Log, "mark the VM as stopped", func(ctx context.Context) error { return g.Client.stop(ctx, g.VM) }) {
			return
		}
		g.Log.Info("VM is marked as stopped, as its guest has shut down; waiting for the end of the pod")
		if !g.waitUntilWanted(ctx) {
			return
		}
	} else if !sleep(ctx, g.leastRun-g.Ran) {
		return
	}
	if retry(ctx, g.pace, g.Log, "delete the pod", func(ctx context.Context) error { return g.Client.delete(ctx, g.Pod) }) {
		g.Log.Info("pod is deleted, so that another one starts the VM again")
	}
	<-ctx.Done()
}

// waitUntilWanted waits until the VM is to run again, or the context ends.
func (g GuestShutdown) waitUntilWanted(ctx context.Context) bool {
	for sleep(ctx, g.pace.look) {
		m, err := g.Client.virtualMachine(ctx, g.VM)
		if err == nil && m.Spec.VM.State != stateStopped {
			return true
		}
		if hasCode(err, http.StatusNotFound) {
			// It is being deleted, and the pod with it.
			continue
		}
	}
	return false
}
