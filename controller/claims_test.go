package controller_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A claim that a user made is used as it is, as far as it cannot be changed, and a disk can be added to a VM that runs.
func TestClaims(t *testing.T) {
	c := newCluster(t)
	c.create(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: system-disk-web-0, labels: {mine: "yes"}}
spec: {accessModes: [ReadWriteMany], volumeMode: Block, storageClassName: fast, resources: {requests: {storage: 2Gi}}}`)
	c.create(vmManifest, "web")
	c.applied("web")
	claim := c.get("v1", "PersistentVolumeClaim", "system-disk-web-0")
	if got := fmt.Sprintln(at(claim, "spec", "accessModes"), at(claim, "spec", "storageClassName"), at(claim, "metadata", "labels", "mine")); got != "[ReadWriteMany] fast yes\n" {
		t.Errorf("the claim is %s", got)
	}
	if status, reason, message := condition(c.vm("web"), "ClaimsAsSpecified"); status != "False" {
		t.Errorf("ClaimsAsSpecified is %s (%s: %s), want False: the claim is larger than the template says", status, reason, message)
	}

	before := at(c.get("apps/v1", "StatefulSet", "web"), "metadata", "uid")
	c.patchVM(`{"spec":{"vm":{"disks":[
		{"volumeClaimTemplate":{"metadata":{"name":"system"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}},
		{"volumeClaimTemplate":{"metadata":{"name":"data"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}]}}}`)
	c.eventually(func() string {
		if c.get("v1", "PersistentVolumeClaim", "data-disk-web-0") == nil {
			return "the claim of the second disk is not there"
		}
		return ""
	})
	c.applied("web")
	if after := at(c.get("apps/v1", "StatefulSet", "web"), "metadata", "uid"); after != before {
		t.Error("the StatefulSet was replaced for a disk")
	}
}

// A claim that somebody else makes decides how it is used, so the pod waits for it. It stays as it is.
func TestGivenClaim(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, spec: {vm: {state: Running, disks: [{persistentVolumeClaim: {claimName: root}}]}}}`)
	c.waitFor("web", "Ready", "False", "ClaimMissing")
	if got := at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas"); got != int64(0) {
		t.Errorf("the StatefulSet has %v replicas without the claim, want 0", got)
	}
	claim := c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: root}, spec: {volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	c.applied("web")
	c.eventually(func() string {
		set := c.get("apps/v1", "StatefulSet", "web")
		containers, _ := at(set, "spec", "template", "spec", "containers").([]any)
		if at(set, "spec", "replicas") != int64(1) || len(containers) == 0 || containers[0].(map[string]any)["volumeDevices"] == nil {
			return "the StatefulSet does not have one replica with the claim's block device"
		}
		return ""
	})
	c.quiet()
	if after := c.get("v1", "PersistentVolumeClaim", "root"); after.GetResourceVersion() != claim.GetResourceVersion() {
		t.Error("the claim was changed")
	}
}

// What the cluster completes of a claim, its volume and its storage class, is no reason to apply it again. Later they are applied along with what
// is, as nobody may take them from a claim.
func TestClaimIsWrittenOnce(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	for _, claim := range []string{"runner-data-web-0", "system-disk-web-0"} {
		c.patch("v1", "PersistentVolumeClaim", claim, fmt.Sprintf(`{"spec":{"volumeName":"volume-of-%s","storageClassName":"fast"}}`, claim))
		c.bind(claim)
	}
	c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.quiet()
	writes := func() (out []string) {
		for _, r := range c.writes(0) {
			if r.Resource == "persistentvolumeclaims" {
				out = append(out, r.Name)
			}
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]string{"runner-data-web-0", "system-disk-web-0"}, writes()); diff != "" {
		t.Errorf("writes of claims (-want +got):\n%s", diff)
	}

	c.patchVM(`{"spec":{"vm":{"disks":[{"volumeClaimTemplate":{"metadata":{"name":"system","labels":{"tier":"db"}},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}]}}}`)
	c.eventually(func() string {
		if got := at(c.get("v1", "PersistentVolumeClaim", "system-disk-web-0"), "metadata", "labels", "tier"); got != "db" {
			return fmt.Sprintf("the claim has the label tier: %v", got)
		}
		return ""
	})
	claim := c.get("v1", "PersistentVolumeClaim", "system-disk-web-0")
	if at(claim, "spec", "volumeName") != "volume-of-system-disk-web-0" || at(claim, "spec", "storageClassName") != "fast" {
		t.Errorf("then the claim is %v", at(claim, "spec"))
	}
}
