package controller_test

import (
	"fmt"
	"testing"
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
