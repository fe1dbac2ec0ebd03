package controller_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A VirtualMachine becomes its objects, each marked as its own.
func TestFirstApply(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	vm := c.vm("web")
	for kind, name := range map[string]string{"apps/v1 StatefulSet": "web", "v1 ConfigMap": "web", "v1 PersistentVolumeClaim": "system-disk-web-0", "v1 Secret": "web-display-secret"} {
		apiVersion, k := cut(kind)
		o := c.get(apiVersion, k, name)
		if o == nil {
			t.Fatalf("%s %s is not there", k, name)
		}
		if diff := cmp.Diff(string(vm.GetUID()), o.GetLabels()["cuvee-vm.github.io/owner"]); diff != "" {
			t.Errorf("owner of %s (-want +got):\n%s", k, diff)
		}
		if o.GetAnnotations()["cuvee-vm.github.io/hash"] == "" {
			t.Errorf("%s has no hash", k)
		}
	}
	if got := vm.GetFinalizers(); len(got) != 1 || got[0] != "cuvee-vm.github.io/vm" {
		t.Errorf("finalizers are %q", got)
	}
	if at(vm, "status", "image") == nil {
		t.Error("status.image is not set")
	}
}

// A changed specification reaches the objects.
func TestUpdate(t *testing.T) {
	c := newCluster(t)
	vm := c.create(vmManifest, "web")
	c.applied("web")
	c.must(api.Patch(t.Context(), vm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"vm":{"state":"Stopped"}}}`))))
	c.eventually(func() string {
		if at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas") != int64(0) {
			return "the StatefulSet still has replicas"
		}
		return ""
	})
}

func cut(s string) (string, string) {
	for i := range s {
		if s[i] == ' ' {
			return s[:i], s[i+1:]
		}
	}
	return "", s
}
