package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// gadgets is a kind of a site's own: a directory of CUE, and nothing else.
var gadgets = map[string]string{
	"schema/gadget.cue": `package schema

#Gadget: {
	apiVersion: "example.com/v1"
	kind:       "Gadget"
	metadata: {...}
	spec: size!: int
}
`,
	"package.cue": `package gadget

import "github.com/cuvee-vm/cuvee/templates/gadget/schema"

kind: {group: "example.com", version: "v1", kind: "Gadget", plural: "gadgets", namespaced: true}

_contract: schema.#Gadget

makes: configMap: {apiVersion: "v1", kind: "ConfigMap"}

settings: color: string | *"green"

input: {metadata: {name: string, ...}, spec: {size: int, ...}, ...}

observe: {}
observed: {}
engine: {resourceVersion: string | *"", generation: int | *0, now: string | *"", random: string | *""}

objects: [string]: {apiVersion!: string, kind!: string, metadata!: {name!: string, ...}, ...}
objects: configMap: {
	apiVersion: "v1"
	kind:       "ConfigMap"
	metadata: name: "gadget-\(input.metadata.name)"
	data: {color: settings.color, size: "\(input.spec.size)"}
}
policy: {for k, _ in objects {(k): {mode: string | *"apply", prune: bool | *true, wave: int | *0}}}

faults: [string]: {path!: string, message!: string}
reserve: {}
status: {}
conditions: [string]: {...}
metrics: [string]: number
done: bool | *true
`,
	"cases/plain.yaml": `apiVersion: example.com/v1
kind: Gadget
metadata: {name: plain}
spec: {size: 1}
`,
}

const gadgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status:
            type: object
            properties:
              observedGeneration: {type: integer}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type]
                  properties:
                    type: {type: string}
                    status: {type: string}
                    reason: {type: string}
                    message: {type: string}
                    observedGeneration: {type: integer}
                    lastTransitionTime: {type: string, format: date-time}
`

// TestNewKind adds a kind to a manager that runs: its directory of CUE first, then its CustomResourceDefinition, then a resource. Its
// templates are followed like the others, and the VMs' go on.
func TestNewKind(t *testing.T) {
	w := newWorld(t, 1)
	dir, metrics := t.TempDir(), w.address()
	write := func(name, text string) {
		file := filepath.Join(dir, name)
		w.must(os.MkdirAll(filepath.Dir(file), 0o700))
		w.must(os.WriteFile(file, []byte(text), 0o600))
	}
	write("lab.cue", "package vm\n")
	m := w.manager(w.admin("new-kind"), "--templates", dir, "--metrics-bind-address", metrics)
	w.vm("web")
	w.untilConfigMap("web")

	for name, text := range gadgets {
		write("gadget/"+name, text)
	}
	w.eventually(func() string { return lacks(get(metrics, templatesPage), "for Gadget") })

	crd := &unstructured.Unstructured{}
	w.must(yaml.Unmarshal([]byte(gadgetCRD), &crd.Object))
	definitions := w.client.Resource(resource("apiextensions.k8s.io", "customresourcedefinitions"))
	_, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{})
	w.must(err)
	t.Cleanup(func() { w.must(definitions.Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{})) })

	kind := w.client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}).Namespace(w.namespace)
	gadget := object("example.com/v1", "Gadget", "one")
	gadget.Object["spec"] = map[string]any{"size": int64(3)}
	w.eventually(func() string {
		// The API server serves a kind a moment after it has its definition.
		if _, err := kind.Create(t.Context(), gadget, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	data := func(want string) {
		t.Helper()
		w.eventually(func() string {
			c, err := w.client.Resource(resource("", "configmaps")).Namespace(w.namespace).Get(t.Context(), "gadget-one", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			d, _, _ := unstructured.NestedStringMap(c.Object, "data")
			if got := d["color"] + " " + d["size"]; got != want {
				return "the ConfigMap has " + got + ", want " + want
			}
			return ""
		})
	}
	data("green 3")
	w.eventually(func() string {
		g, err := kind.Get(t.Context(), "one", metav1.GetOptions{})
		w.must(err)
		if reason, generation := reconciling(*g); reason != "Settled" || generation != g.GetGeneration() {
			return "its status is not that of one that is settled: " + reason
		}
		return ""
	})

	write("gadget/site.cue", "package gadget\n\nsettings: color: \"red\"\n")
	data("red 3")
	w.vm("other")
	w.untilConfigMap("other")
	alive(t, m)
}
