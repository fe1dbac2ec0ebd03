package controller_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What kubectl apply made before is taken over whole: also fields that are not rendered go.
func TestTakeOverFromKubectl(t *testing.T) {
	c := newNamespace(t)
	old := c.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {old: "1"}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}, data: {config.json: old, other: old}}`)
	c.must(api.Create(t.Context(), old, client.FieldOwner("kubectl-client-side-apply")))
	c.start(one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.eventually(func() string {
		cm := c.get("v1", "ConfigMap", "web")
		if at(cm, "data", "config.json") == "old" || at(cm, "data", "other") != nil || at(cm, "metadata", "labels", "old") != nil {
			return "fields of kubectl apply are still there"
		}
		if names := managers(cm); len(names) != 1 || names[0] != "cuvee.vm" {
			return "there are other managers"
		}
		return ""
	})
}

func managers(u *unstructured.Unstructured) []string {
	var out []string
	for _, e := range u.GetManagedFields() {
		out = append(out, e.Manager)
	}
	return out
}
