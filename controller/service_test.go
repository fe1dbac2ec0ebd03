package controller_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// The port is the key of a Service's list of ports: one that was changed cannot be merged with the one that is rendered,
// as both have the same name. The Service is replaced then, once.
func TestServicePortDrift(t *testing.T) {
	c := newNamespace(t)
	site := fstest.MapFS{"site.cue": {Data: []byte("package vm\n\nsettings: loadBalancerService: enabled: true\n")}}
	p, err := controller.Load(cuvee.Files, site, "site", "vm")
	c.must(err)
	c.start(one(p))
	vm := c.object(vmManifest, "web")
	c.must(unstructured.SetNestedField(vm.Object, map[string]any{"spice": map[string]any{"port": int64(5910)}}, "spec", "vm", "display"))
	c.must(api.Create(t.Context(), vm))
	port := func() any {
		ports, _ := at(c.get("v1", "Service", "web"), "spec", "ports").([]any)
		if len(ports) != 1 {
			return fmt.Sprintf("%d ports", len(ports))
		}
		return ports[0].(map[string]any)["port"]
	}
	var want any
	c.eventually(func() string {
		if c.get("v1", "Service", "web") == nil {
			return "there is no Service"
		}
		want = port()
		return ""
	})
	c.quiet()
	mark := c.mark()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/ports/0/port","value":4711}]`))
	c.must(api.Patch(t.Context(), c.get("v1", "Service", "web"), patch, client.FieldOwner("kubectl-edit")))
	c.eventually(func() string {
		if got := port(); got != want {
			return fmt.Sprintf("the port is %v, want %v", got, want)
		}
		return ""
	})
	c.quiet()
	updates := 0
	for _, w := range c.writes(mark) {
		if w.Resource == "services" && w.Verb == "update" {
			updates++
		}
	}
	if updates != 1 {
		t.Errorf("the Service was replaced %d times: %v", updates, c.writes(mark))
	}
}
