package kustomize_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTwoManagers has the base in two namespaces, with one CustomResourceDefinition. Each manager has its Role and nothing else, works in
// its own namespace, and could not work in the other one.
func TestTwoManagers(t *testing.T) {
	c := admin(t)
	managers := map[string]*manager{"two-a": nil, "two-b": nil}
	for ns := range managers {
		managers[ns] = c.install(ns, build(t, "base"))
		c.vm(ns, "vm-of-"+ns, specWithDisk())
	}
	for ns, m := range managers {
		c.rendered(ns, "vm-of-"+ns)
		c.noForbidden(m)
		for _, r := range c.requests(m) {
			if r.Namespace != ns && (r.Namespace != "" || r.Resource == "vms") {
				t.Errorf("the manager of %s sends %s", ns, r)
			}
		}
	}
	for ns, other := range map[string]string{"two-a": "two-b", "two-b": "two-a"} {
		stranger := newCluster(t, server, c.bearer(c.token(ns, "vm-operator", nil)))
		if err := stranger.api.List(t.Context(), vms(), client.InNamespace(ns)); err != nil {
			t.Errorf("the manager of %s may not list its own VMs: %v", ns, err)
		}
		if err := stranger.api.List(t.Context(), vms(), client.InNamespace(other)); !apierrors.IsForbidden(err) {
			t.Errorf("the manager of %s may list the VMs of %s: %v", ns, other, err)
		}
		if err := stranger.api.List(t.Context(), vms()); !apierrors.IsForbidden(err) {
			t.Errorf("the manager of %s may list the VMs of all: %v", ns, err)
		}
	}
	// Only one of them is asked for something: nothing of it concerns the other.
	before := c.get("v1", "ConfigMap", "two-b", "vm-of-two-b").GetResourceVersion()
	c.merge("two-a", "vm-of-two-a", `{"spec":{"vm":{"maximumRam":"2Gi"}}}`)
	c.rendered("two-a", "vm-of-two-a")
	if now := c.get("v1", "ConfigMap", "two-b", "vm-of-two-b").GetResourceVersion(); now != before {
		t.Error("a change of a VM in the one namespace has changed the VM in the other")
	}
}
