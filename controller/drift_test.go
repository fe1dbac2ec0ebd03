package controller_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Whatever someone changes of an object by hand is set back at once; what they add is left alone.
func TestDriftIsCorrected(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	cases := map[string]struct {
		apiVersion, kind, name, patch string
		path                          []string
		want                          any
	}{
		"Label":      {"apps/v1", "StatefulSet", "web", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"}}}`, []string{"metadata", "labels", "app.kubernetes.io/managed-by"}, "vm-operator"},
		"Replicas":   {"apps/v1", "StatefulSet", "web", `{"spec":{"replicas":0}}`, []string{"spec", "replicas"}, int64(1)},
		"Data":       {"v1", "ConfigMap", "web", `{"data":{"config.json":"{}"}}`, nil, nil},
		"OwnerLabel": {"v1", "ConfigMap", "web", `{"metadata":{"labels":{"app.kubernetes.io/name":null}}}`, []string{"metadata", "labels", "app.kubernetes.io/name"}, "vm-runner"},
		"Claim":      {"v1", "PersistentVolumeClaim", "system-disk-web-0", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"x"}}}`, []string{"metadata", "labels", "app.kubernetes.io/managed-by"}, "vm-operator"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
			before := c.get(tc.apiVersion, tc.kind, tc.name)
			want := tc.want
			if tc.path == nil {
				tc.path = []string{"data", "config.json"}
				want = at(before, tc.path...)
			}
			c.must(api.Patch(t.Context(), before.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tc.patch)), client.FieldOwner("kubectl-edit")))
			c.eventually(func() string {
				if got := at(c.get(tc.apiVersion, tc.kind, tc.name), tc.path...); got != want {
					return fmt.Sprintf("%v is %v, want %v", tc.path, got, want)
				}
				return ""
			})
		})
	}
	t.Run("Deleted", func(t *testing.T) {
		c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
		was := c.get("v1", "ConfigMap", "web")
		c.must(api.Delete(t.Context(), was))
		c.eventually(func() string {
			if is := c.get("v1", "ConfigMap", "web"); is == nil || is.GetUID() == was.GetUID() {
				return "the ConfigMap is not made anew"
			}
			return ""
		})
	})
	t.Run("AddedByOthers", func(t *testing.T) {
		c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
		mark := c.mark()
		c.patch("v1", "ConfigMap", "web", `{"metadata":{"labels":{"theirs":"1"}},"data":{"theirs":"1"}}`)
		c.quiet()
		if w := c.writes(mark); len(w) > 0 {
			t.Errorf("fields of others lead to writes: %v", w)
		}
		if got := at(c.get("v1", "ConfigMap", "web"), "data", "theirs"); got != "1" {
			t.Errorf("the field of others is %v", got)
		}
	})
}

// patch changes an object as kubectl edit does.
func (c *cluster) patch(apiVersion, kind, name, patch string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(c.namespace)
	u.SetName(name)
	c.must(api.Patch(c.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit")))
}

// patchVM changes the VM web as a user does.
func (c *cluster) patchVM(patch string) {
	c.Helper()
	c.patch("vmoperator.jdrupes.org/v1", "VirtualMachine", "web", patch)
}
