package controller_test

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is deleted before the engine has the answer to its last write is gone for the engine, too, and made anew.
func TestGoneBeforeTheAnswer(t *testing.T) {
	c := newNamespace(t)
	b := c.startBetween("/statefulsets/", one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	set := c.get("apps/v1", "StatefulSet", "web")
	deleted := make(chan struct{})
	b.answered <- func() {
		defer close(deleted)
		if err := api.Delete(context.Background(), set.DeepCopy(), client.Preconditions{UID: new(set.GetUID())}); err != nil {
			t.Error(err)
		}
		// The watch tells of it meanwhile.
		<-time.After(time.Second)
	}
	c.patch("apps/v1", "StatefulSet", "web", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	select {
	case <-deleted:
	case <-time.After(deadline):
		t.Fatal("the StatefulSet was not set back")
	}
	c.eventually(func() string {
		if now := c.get("apps/v1", "StatefulSet", "web"); now == nil || now.GetUID() == set.GetUID() {
			return "there is no other StatefulSet"
		}
		return ""
	})
	c.applied("web")
}

// What was made anew, and is deleted at once, is made anew once more: all is as it was when the pass began that made it.
func TestGoneTwice(t *testing.T) {
	c := newNamespace(t)
	b := c.startBetween("/configmaps/", one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	deleted := make(chan struct{})
	b.answered <- func() {
		defer close(deleted)
		if err := api.Delete(context.Background(), c.get("v1", "ConfigMap", "web")); err != nil {
			t.Error(err)
		}
		<-time.After(time.Second)
	}
	c.must(api.Delete(t.Context(), c.get("v1", "ConfigMap", "web")))
	select {
	case <-deleted:
	case <-time.After(deadline):
		t.Fatal("the ConfigMap was not made anew")
	}
	c.eventually(func() string {
		if c.get("v1", "ConfigMap", "web") == nil {
			return "the ConfigMap was not made anew once more"
		}
		return ""
	})
}

// Nothing is made for a VM that has been let go, though no watch has told of its end yet. A new one of its name is another VM.
func TestNothingIsMadeForWhatIsLetGo(t *testing.T) {
	c := newNamespace(t)
	proxy := c.newProxy()
	deaf := c.deafen(proxy, "/vms", 10*time.Second)
	c.startBehind(proxy)
	vm := c.create(vmManifest, "web")
	c.applied("web")
	pod := c.create(podManifest, "web")
	c.quiet()
	c.must(api.Delete(t.Context(), vm))
	c.replicas(0)
	c.quiet()
	deaf(true)
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.eventually(func() string {
		if c.vm("web") != nil {
			return "the VM is still there"
		}
		return ""
	})
	// As the cluster does.
	c.must(api.Delete(t.Context(), c.get("v1", "ConfigMap", "web")))
	c.quiet()
	if c.get("v1", "ConfigMap", "web") != nil {
		t.Error("the ConfigMap was made anew")
	}
	c.create(vmManifest, "web")
	deaf(false)
	c.applied("web")
	if c.get("v1", "ConfigMap", "web") == nil {
		t.Error("the new VM has no ConfigMap")
	}
}
