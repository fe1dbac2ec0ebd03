package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// guestShutsDown sets the state as the runner does: it patches what it has seen.
func (c *cluster) guestShutsDown() {
	c.Helper()
	c.eventually(func() string {
		vm := c.vm("web")
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"vm":{"state":"Stopped"}}}`, vm.GetUID(), vm.GetResourceVersion())
		if err := api.Patch(c.Context(), vm, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner("cuvee.runner")); err != nil {
			return err.Error() // The manager has just written its status.
		}
		return ""
	})
	c.replicas(0)
}

// A VM that the runner has set to Stopped is started again by who keeps it with kubectl apply, as if they had stopped it themselves.
func TestStateByClientSideApply(t *testing.T) {
	c := newCluster(t)
	manifest := fmt.Sprintf(vmManifest, "web")
	apply := func() {
		t.Helper()
		_, err := c.kubectl(manifest, "apply", "-f", "-")
		c.must(err)
	}
	apply()
	c.replicas(1)
	for range 2 {
		c.guestShutsDown()
		apply()
		c.replicas(1)
	}
	// Who has left the state out wants no other one.
	manifest = strings.Replace(manifest, "    state: Running\n", "", 1)
	apply()
	c.guestShutsDown()
	apply()
	c.quiet()
	c.replicas(0)
}

// With server-side apply the state is the runner's until it is taken from it, and that is said.
func TestStateByServerSideApply(t *testing.T) {
	c := newCluster(t)
	apply := func(args ...string) error {
		_, err := c.kubectl(fmt.Sprintf(vmManifest, "web"), append([]string{"apply", "--server-side", "-f", "-"}, args...)...)
		return err
	}
	c.must(apply())
	c.replicas(1)
	for range 2 {
		c.guestShutsDown()
		if err := apply(); err == nil || !strings.Contains(err.Error(), "cuvee.runner") || !strings.Contains(err.Error(), ".spec.vm.state") {
			t.Errorf("want a conflict about .spec.vm.state with cuvee.runner, have %v", err)
		}
		c.replicas(0)
		c.must(apply("--force-conflicts"))
		c.replicas(1)
	}
}
