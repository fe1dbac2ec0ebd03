package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/controller"
)

// parcels is a kind that no Go knows: its objects and policies are what its custom resource says they are.
var parcels = map[string]string{
	"schema/schema.cue": `package schema

#Parcel: {
	apiVersion: "example.com/v1"
	kind:       "Parcel"
	metadata: {...}
	spec: {...}
}
`,
	"package.cue": `package parcel

import "github.com/cuvee-vm/cuvee/templates/parcel/schema"

kind: {group: "example.com", version: "v1", kind: "Parcel", plural: "parcels", namespaced: true}
finalizer: "cuvee-vm.github.io/parcel"

_contract: schema.#Parcel

makes: {
	configMap: {apiVersion: "v1", kind: "ConfigMap"}
	pod: {apiVersion: "v1", kind: "Pod"}
	clusterRole: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole"}
}

settings: {}
input: {metadata: {name: string, namespace: string, ...}, spec: {objects: {...} | *{}, policy: {...} | *{}, reserve: {...} | *{}, ...}, ...}

observe: {}
observed: {}
engine: {resourceVersion: string | *"", generation: int | *0, now: string | *"", random: string | *""}

_deleting: input.metadata.deletionTimestamp != _|_

objects: [string]: {apiVersion!: string, kind!: string, metadata!: {name!: string, ...}, ...}
if !_deleting {
	objects: input.spec.objects
}
policy: {for k, _ in objects {(k): {mode: string | *"apply", prune: bool | *true, wave: int | *0, subresource?: string}}}
if !_deleting {
	policy: input.spec.policy
}

faults: [string]: {path!: string, message!: string}
reserve: input.spec.reserve
status: {}
conditions: [string]: {...}
metrics: [string]: number
wake?: string
clock: step?: string
done: bool | *true
`,
}

const parcelCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parcels.example.com}
spec:
  group: example.com
  names: {kind: Parcel, listKind: ParcelList, plural: parcels, singular: parcel}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// installParcels makes the kind known to the API server.
func (c *cluster) installParcels() {
	c.Helper()
	crd := &apiextensions.CustomResourceDefinition{}
	c.must(yaml.Unmarshal([]byte(parcelCRD), crd))
	_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{crd}, MaxTime: deadline})
	c.must(err)
}

func (c *cluster) removeParcels() {
	c.Helper()
	// Those of other tests have a finalizer, and no engine any more.
	var left unstructured.UnstructuredList
	left.SetAPIVersion("example.com/v1")
	left.SetKind("ParcelList")
	if err := api.List(context.Background(), &left); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		c.must(err)
	}
	for _, p := range left.Items {
		c.must(client.IgnoreNotFound(api.Patch(context.Background(), &p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name = "parcels.example.com"
	c.must(client.IgnoreNotFound(api.Delete(context.Background(), crd)))
	c.eventually(func() string {
		if err := api.Get(context.Background(), types.NamespacedName{Name: crd.Name}, crd); client.IgnoreNotFound(err) == nil && err != nil {
			return ""
		}
		return "the CustomResourceDefinition is still there"
	})
}

// parcelPackage loads the kind's templates from a directory, with more CUE if a test gives some.
func parcelPackage(t *testing.T, extra ...string) controller.Package {
	t.Helper()
	return loadParcels(t, parcelFiles(t, extra...))
}

func loadParcels(t *testing.T, module fs.FS) controller.Package {
	t.Helper()
	p, err := controller.Load(module, nil, "", "parcel")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parcelFiles(t *testing.T, extra ...string) fs.FS {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"cue.mod/module.cue": "module: \"github.com/cuvee-vm/cuvee@v0\"\nlanguage: version: \"v0.17.0\"\n"}
	for name, text := range parcels {
		files["templates/parcel/"+name] = text
	}
	for i, text := range extra {
		files[fmt.Sprintf("templates/parcel/extra%d.cue", i)] = "package parcel\n" + text
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return os.DirFS(dir)
}

// newParcels starts an engine for parcels.
func newParcels(t *testing.T) *cluster {
	t.Helper()
	c := newNamespace(t)
	c.installParcels()
	c.start(one(parcelPackage(t)))
	return c
}

// parcel makes or changes a parcel: its spec is YAML.
func (c *cluster) parcel(name, spec string, args ...any) {
	c.Helper()
	u := c.object("{apiVersion: example.com/v1, kind: Parcel, metadata: {name: %s}}", name)
	var s map[string]any
	c.must(yaml.Unmarshal([]byte(fmt.Sprintf(spec, args...)), &s))
	if now := c.getParcel(name); now != nil {
		u = now
	}
	u.Object["spec"] = s
	if u.GetResourceVersion() == "" {
		c.must(api.Create(c.Context(), u))
		return
	}
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": s}})
	c.must(err)
	c.must(api.Patch(c.Context(), u, client.RawPatch(types.JSONPatchType, patch)))
}

func (c *cluster) getParcel(name string) *unstructured.Unstructured {
	c.Helper()
	return c.get("example.com/v1", "Parcel", name)
}

// parcelSays waits until Ready of this generation has a status and a reason.
func (c *cluster) parcelSays(name, status, reason string) (message string) {
	c.Helper()
	c.eventually(func() string {
		u := c.getParcel(name)
		s, r, m := condition(u, "Ready")
		list, _ := at(u, "status", "conditions").([]any)
		if s != status || r != reason || len(list) == 0 || list[0].(map[string]any)["observedGeneration"] != u.GetGeneration() {
			return fmt.Sprintf("Ready of %s is %q (%s: %s), want %q (%s)", name, s, r, m, status, reason)
		}
		message = m
		return ""
	})
	return message
}

// value is what a ConfigMap has as "v".
func (c *cluster) value(name string) any {
	c.Helper()
	return at(c.get("v1", "ConfigMap", name), "data", "v")
}

// A kind needs a directory of CUE, and no Go. Its CustomResourceDefinition may come after the manager, go, and come back.
func TestMadeUpKind(t *testing.T) {
	c := newNamespace(t)
	c.removeParcels()
	c.start(controller.Fixed{vmPackage(t), parcelPackage(t)})
	c.create(vmManifest, "web")
	c.applied("web")
	const spec = "objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {v: '1'}}}"
	for _, name := range []string{"first", "second"} {
		c.installParcels()
		c.parcel(name, spec, name)
		c.parcelSays(name, "True", "Applied")
		if c.value(name) != "1" {
			t.Errorf("the ConfigMap %s is not there", name)
		}
		c.must(api.Delete(t.Context(), c.getParcel(name)))
		c.eventually(func() string {
			if c.getParcel(name) != nil || c.value(name) != nil {
				return "the parcel, or its object, is still there"
			}
			return ""
		})
		c.removeParcels()
	}
	// Other kinds go on meanwhile.
	c.create(vmManifest, "other")
	c.applied("other")
}
