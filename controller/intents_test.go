package controller_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (c *cluster) replicas(want int64) {
	c.Helper()
	c.eventually(func() string {
		if at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas") != want {
			return "the StatefulSet has the wrong number of replicas"
		}
		return ""
	})
}

// An annotation with a new value restarts the VM, once: no replica until the pod is gone, then one.
func TestRestart(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	pod := c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.replicas(1)
	c.patchVM(`{"metadata":{"annotations":{"cuvee-vm.github.io/restart":"a"}}}`)
	c.replicas(0)
	c.quiet()
	c.replicas(0)
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.replicas(1)
	if got := at(c.vm("web"), "status", "handled", "restart"); got != "a" {
		t.Errorf("status.handled.restart is %v, want a", got)
	}
	// The next pod is left alone, also by another manager.
	c.create(podManifest, "web")
	c.podStatus(running)
	c.quiet()
	c.replicas(1)
	c.stop()
	c.start(one(vmPackage(t)))
	c.eventually(func() string {
		c.patchVM(`{"metadata":{"annotations":{"touched":"` + time.Now().String() + `"}}}`)
		return ""
	})
	c.quiet()
	c.replicas(1)

	c.patchVM(`{"metadata":{"annotations":{"cuvee-vm.github.io/restart":"b"}}}`)
	c.replicas(0)
}
