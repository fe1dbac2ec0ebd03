package controller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fight writes a label again as soon as it has been set back, as a controller does, until the context is done.
func (c *cluster) fight(ctx context.Context) {
	for ctx.Err() == nil {
		u := c.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}`)
		if api.Get(ctx, client.ObjectKeyFromObject(u), u) == nil && u.GetLabels()["app.kubernetes.io/managed-by"] != "fighter" {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"fighter"}}}`))
			// It may have been changed in between.
			_ = api.Patch(ctx, u, patch, client.FieldOwner("fighter"))
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Someone who changes an object whenever it is set back is not fought for ever: it is said who changes which field.
func TestContest(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	mark := c.mark()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.fight(ctx) }()
	message := c.waitFor("web", "Ready", "False", "Contested")
	for _, want := range []string{"ConfigMap", "fighter", "metadata.labels.app.kubernetes.io/managed-by"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message has no %q: %s", want, message)
		}
	}
	c.quiet()
	n := 0
	for _, w := range c.writes(mark) {
		if w.Resource == "configmaps" {
			n++
		}
	}
	// Each correction is one that is refused, and one by force.
	if n < 2 || n > 30 {
		t.Errorf("the ConfigMap was written %d times", n)
	}
	stop()
	<-done
	// What is rendered anew is applied all the same.
	c.patchVM(`{"spec":{"vm":{"powerdownTimeout":33}}}`)
	c.waitFor("web", "Ready", "False", "WaitingForPod")
	if got := at(c.get("v1", "ConfigMap", "web"), "metadata", "labels", "app.kubernetes.io/managed-by"); got != "vm-operator" {
		t.Errorf("the label is %v", got)
	}
}
