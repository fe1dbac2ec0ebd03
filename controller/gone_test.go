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
		time.Sleep(time.Second)
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
