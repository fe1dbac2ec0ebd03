package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A disk's source is there until the disk is filled, and again when its claim is another one.
func TestDisksFilled(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, spec: {vm: {state: Running, disks: [
		{image: {reference: "registry.example/live:1", pullPolicy: IfNotPresent}},
		{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}, source: {image: {reference: "registry.example/os:1"}}}]}}}`)
	c.applied("web")
	if got := c.imageVolumes(); got != "image-disk0=registry.example/live:1 source-disk1=registry.example/os:1" {
		t.Errorf("the StatefulSet has the image volumes %q", got)
	}
	c.waitFor("web", "DisksFilled", "False", "WaitingForStart")

	pod := c.create(podManifest, "web")
	c.podStatus(running)
	c.runner(`{cpus: 0, ram: "0", imports: [{disk: system-disk, state: Importing, source: "registry.example/os:1", percent: 42}],
		conditions: [{type: Running, status: "False", reason: Importing, message: "disk system-disk is filled", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	for _, kind := range []string{"Ready", "DisksFilled"} {
		if message := c.waitFor("web", kind, "False", "Importing"); message != "disk system-disk is filled" {
			t.Errorf("the message of %s is %q", kind, message)
		}
	}
	c.runner(`{cpus: 0, ram: "0", conditions: [{type: Running, status: "False", reason: ImportFailed, message: "no", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	c.waitFor("web", "Ready", "False", "ImportFailed")

	c.runner(`{cpus: 1, ram: 1Gi, contents: [{disk: system-disk, result: Filled}],
		conditions: [{type: Running, status: "True", reason: VmStarted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	c.waitFor("web", "DisksFilled", "True", "Filled")
	c.waitFor("web", "Ready", "True", "Running")
	c.eventually(func() string {
		if got := c.imageVolumes(); got != "image-disk0=registry.example/live:1" {
			return "the StatefulSet has the image volumes " + got
		}
		if config, _ := at(c.get("v1", "ConfigMap", "web"), "data", "config.json").(string); strings.Contains(config, "os:1") {
			return "the runner is told to fill the disk"
		}
		return ""
	})

	// Who replaces the claim gets it filled, also if nobody looks at the VM's status meanwhile.
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.waitFor("web", "Running", "False", "VmStopped")
	claim := c.get("v1", "PersistentVolumeClaim", "system-disk-web-0")
	if got := at(claim, "metadata", "labels", "cuvee-vm.github.io/content"); got != "Filled" {
		t.Errorf("the claim has the label %v, want Filled", got)
	}
	c.must(api.Patch(t.Context(), claim, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	c.must(client.IgnoreNotFound(api.Delete(t.Context(), claim)))
	c.eventually(func() string {
		now := c.get("v1", "PersistentVolumeClaim", "system-disk-web-0")
		if now == nil || now.GetUID() == claim.GetUID() {
			return "there is no other claim"
		}
		if at(now, "metadata", "labels", "cuvee-vm.github.io/content") != nil || !strings.Contains(c.imageVolumes(), "source-disk1") {
			return "the new claim counts as filled"
		}
		return ""
	})
	again := c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.quiet()
	if status, reason, _ := condition(c.vm("web"), "DisksFilled"); status != "False" || !strings.Contains(c.imageVolumes(), "source-disk1") {
		t.Errorf("DisksFilled is %s (%s) for a new claim, with the image volumes %s", status, reason, c.imageVolumes())
	}

	// The pod and the claim may be replaced while there is no manager: then the status is that of the runner before.
	says := func(pod *unstructured.Unstructured) {
		t.Helper()
		c.runner(fmt.Sprintf(`{cpus: 1, ram: 1Gi, contents: [{disk: system-disk, result: Filled, pod: %q}],
			conditions: [{type: Running, status: "True", reason: VmStarted, message: "", lastTransitionTime: "2026-01-02T00:00:00Z"}]}`, pod.GetUID()))
	}
	c.stop()
	says(again)
	c.must(api.Delete(t.Context(), again, client.GracePeriodSeconds(0)))
	third := c.create(podManifest, "web")
	c.podStatus(running)
	c.start(one(vmPackage(t)))
	c.waitFor("web", "Ready", "True", "Running")
	c.quiet()
	if status, _, _ := condition(c.vm("web"), "DisksFilled"); status != "False" || !strings.Contains(c.imageVolumes(), "source-disk1") {
		t.Errorf("DisksFilled is %s by what the runner of an earlier pod has said, with the image volumes %s", status, c.imageVolumes())
	}
	says(third)
	c.waitFor("web", "DisksFilled", "True", "Filled")
}

// A claim that goes while the manager is about to apply it is not made anew as one with content.
func TestFilledClaimGone(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, spec: {vm: {state: Stopped, disks: [
		{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}, source: {image: {reference: "registry.example/os:1"}}}]}}}`)
	c.waitFor("web", "Ready", "True", "Stopped")
	claim := c.get("v1", "PersistentVolumeClaim", "system-disk-web-0")
	c.patch("v1", "PersistentVolumeClaim", claim.GetName(), `{"metadata":{"labels":{"cuvee-vm.github.io/content":"Filled"}}}`)
	c.waitFor("web", "DisksFilled", "True", "Filled")
	c.quiet()
	c.stop()
	c.logged = &lines{}
	b := c.startBetween("/persistentvolumeclaims/", one(vmPackage(t)))
	c.quiet()
	b.happen <- func() {
		if err := api.Patch(t.Context(), claim.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Error(err)
		}
		if err := client.IgnoreNotFound(api.Delete(t.Context(), claim.DeepCopy())); err != nil {
			t.Error(err)
		}
	}
	c.patch("v1", "PersistentVolumeClaim", claim.GetName(), `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"}}}`)
	c.eventually(func() string {
		now := c.get("v1", "PersistentVolumeClaim", claim.GetName())
		if now == nil || now.GetUID() == claim.GetUID() {
			return "there is no other claim"
		}
		if label := at(now, "metadata", "labels", "cuvee-vm.github.io/content"); label != nil {
			t.Fatalf("the new claim has the label %v", label)
		}
		return ""
	})
	c.quiet()
	c.waitFor("web", "DisksFilled", "False", "WaitingForStart")
	if log := c.logged.String(); !strings.Contains(log, "looking again") {
		t.Errorf("the pass that was made again is not in the log:\n%s", log)
	}
}

// imageVolumes are the images that the pod of the VM web mounts.
func (c *cluster) imageVolumes() string {
	c.Helper()
	volumes, _ := at(c.get("apps/v1", "StatefulSet", "web"), "spec", "template", "spec", "volumes").([]any)
	var images []string
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if image, ok := volume["image"].(map[string]any); ok {
			images = append(images, volume["name"].(string)+"="+image["reference"].(string))
		}
	}
	return strings.Join(images, " ")
}

// A claim that is made from a snapshot, and is not bound, says what it waits for.
func TestWaitingForSource(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, spec: {vm: {state: Running, disks: [
		{volumeClaimTemplate: {metadata: {name: system}, spec: {dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: golden}, resources: {requests: {storage: 1Gi}}}}}]}}}`)
	c.create(podManifest, "web")
	c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: vmop-image-repository}, spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}`)
	c.bind("vmop-image-repository")
	c.podStatus(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}]}`)
	if message := c.waitFor("web", "Ready", "False", "WaitingForSource"); message != "Not bound: system-disk-web-0, which is made from the VolumeSnapshot golden. 0/1 nodes are available" {
		t.Errorf("the message is %q", message)
	}
	c.bind("system-disk-web-0")
	c.bind("runner-data-web-0")
	c.waitFor("web", "Ready", "False", "Unschedulable")
}
