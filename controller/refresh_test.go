package controller_test

import "testing"

// A running pod is told that its configuration has changed.
func TestPodIsRefreshed(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.waitFor("web", "Ready", "False", "WaitingForPod")
	c.create(podManifest, "web")
	c.podStatus(running)
	const annotation = "cuvee-vm.github.io/config"
	c.eventually(func() string {
		if c.get("v1", "Pod", "web-0").GetAnnotations()[annotation] == "" {
			return "the pod has no annotation"
		}
		return ""
	})
	c.quiet()
	last := c.get("v1", "Pod", "web-0").GetAnnotations()[annotation]
	changed := func() string {
		if c.get("v1", "Pod", "web-0").GetAnnotations()[annotation] == last {
			return "the annotation has not changed"
		}
		return ""
	}
	c.patchVM(`{"spec":{"vm":{"powerdownTimeout":33}}}`)
	c.eventually(changed)
	c.quiet()
	last = c.get("v1", "Pod", "web-0").GetAnnotations()[annotation]
	c.patch("v1", "Secret", "web-display-secret", `{"data":{"display-password":"eA=="}}`)
	c.eventually(changed)
	if labels := c.get("v1", "Pod", "web-0").GetLabels(); labels["cuvee-vm.github.io/owner"] != "" {
		t.Error("the pod was marked as one that may be removed")
	}
}
