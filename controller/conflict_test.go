package controller_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A field that someone else applies is not fought for: the condition names the field and the manager.
func TestConflict(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	theirs := c.object(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {replicas: 0}}`)
	c.must(api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner("autoscaler"), client.ForceOwnership))
	c.waitFor("web", "Ready", "False", "Conflict")
	_, _, message := condition(c.vm("web"), "Ready")
	if !strings.Contains(message, "autoscaler") || !strings.Contains(message, "spec.replicas") {
		t.Errorf("the message names neither manager nor field: %s", message)
	}
	c.quiet()
	if got := at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas"); got != int64(0) {
		t.Errorf("spec.replicas is %v: it was fought for", got)
	}
}

// An object that is another's is not taken.
func TestForeignObject(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: 1-2-3, controller: true}]}, data: {a: b}}`)
	c.create(vmManifest, "web")
	c.waitFor("web", "Ready", "False", "Conflict")
	if got := at(c.get("v1", "ConfigMap", "web"), "data", "config.json"); got != nil {
		t.Error("the ConfigMap of another was changed")
	}
	// As soon as it is out of the way, the VM goes on.
	c.must(api.Delete(t.Context(), c.get("v1", "ConfigMap", "web")))
	c.applied("web")
}
