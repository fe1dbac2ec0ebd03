package controller_test

import (
	"strings"
	"testing"
)

// A specification that is refused leaves the running VM alone, and says all that is wrong, a line a fault.
func TestInvalidSpec(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	image := at(c.vm("web"), "status", "image")
	mark := c.mark()
	// The API server cannot know of these: claims that belong to another VM.
	for _, disk := range []string{"a", "b"} {
		c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s-disk-web-0, labels: {app.kubernetes.io/instance: other}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, disk)
	}
	c.patchVM(`{"spec":{"vm":{"currentCpus":1,"disks":[
		{"volumeClaimTemplate":{"metadata":{"name":"a"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}},
		{"volumeClaimTemplate":{"metadata":{"name":"b"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}]}}}`)
	c.waitFor("web", "Stalled", "True", "InvalidSpec")
	_, _, message := condition(c.vm("web"), "Ready")
	if lines := strings.Split(message, "\n"); len(lines) != 2 {
		t.Errorf("want a line for each of two faults, have:\n%s", message)
	}
	c.quiet()
	for _, r := range c.writes(mark) {
		if r.Resource != "vms" || r.Subresource != "status" {
			t.Errorf("an object was touched: %s", r)
		}
	}
	if now := at(c.vm("web"), "status", "image"); now != image {
		t.Errorf("status.image was %v and is %v", image, now)
	}
	c.patchVM(`{"spec":{"vm":{"disks":[]}}}`)
	c.waitFor("web", "Stalled", "False", "")
}
