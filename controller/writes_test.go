package controller_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// podOfStatefulSet makes the pod of the VM web as the StatefulSet has it, as its controller does.
func (c *cluster) podOfStatefulSet() *unstructured.Unstructured {
	c.Helper()
	pod := c.object(podManifest, "web")
	annotations, _, err := unstructured.NestedStringMap(c.get("apps/v1", "StatefulSet", "web").Object, "spec", "template", "metadata", "annotations")
	c.must(err)
	pod.SetAnnotations(annotations)
	c.must(api.Create(c.Context(), pod, client.FieldOwner("kube-controller-manager")))
	return pod
}

// podProgress is what kubelet and the scheduler say of a pod one after the other.
var podProgress = []string{
	`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no volume yet"}]}`,
	`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}]}`,
	`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[{"name":"web","image":"x","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"ContainerCreating"}}}]}`,
	running,
}

// runnerRuns says as the runner does that the guest of the VM web runs, with its configuration of now.
func (c *cluster) runnerRuns() {
	c.Helper()
	config := c.config("web")
	status, err := json.Marshal(map[string]any{"cpus": 1, "ram": "1Gi", "booted": map[string]any{"revision": config["revision"], "why": config["why"]}, "conditions": []any{
		map[string]any{"type": "Running", "status": "True", "reason": "VmStarted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}})
	c.must(err)
	c.runner(string(status))
}

// counts are the engine's writes for the VM web since a moment, by what was written.
func (c *cluster) counts(since testserver.Mark) map[string]int {
	c.Helper()
	out := map[string]int{}
	for _, r := range c.writes(since) {
		if strings.Contains(r.Name, "web") {
			out[strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")]++
		}
	}
	return out
}

// From its creation until it runs, a VM takes a write for each object, one for its finalizer, one for the annotation of its pod, and one
// status, unless it takes long.
func TestWritesOfStart(t *testing.T) {
	c := newCluster(t)
	mark, begun := c.mark(), time.Now()
	c.create(strings.Replace(vmManifest, "spec:", "spec:\n  cloudInit: {userData: {hostname: web}}", 1), "web")
	c.applied("web")
	c.podOfStatefulSet()
	for _, status := range podProgress {
		c.podStatus(status)
		<-time.After(300 * time.Millisecond)
	}
	got, took := c.counts(mark), time.Since(begun)
	c.runnerRuns()
	c.waitFor("web", "Ready", "True", "Running")
	c.quiet()

	t.Logf("after %s it has taken %v", took, got)
	want := map[string]int{"persistentvolumeclaims": 2, "secrets": 4, "configmaps": 1, "statefulsets": 1, "vms": 1, "vms/status": 1, "pods": 1}
	if most := 1 + max(0, int((took-2*time.Second)/time.Second)); got["vms/status"] <= most {
		want["vms/status"] = got["vms/status"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes until the VM ran, after %s (-want +got):\n%s", took, diff)
	}
	all := c.counts(mark)
	delete(all, "vms/status")
	delete(want, "vms/status")
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("writes until some time after, but for statuses (-want +got):\n%s", diff)
	}
}
