package kustomize_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/kustomize/kustomization"
)

// build returns the objects of a kustomization.
func build(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomization.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// kustomizations are the directories of all kustomizations that can be applied by themselves.
func kustomizations(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var k metav1.TypeMeta
		if err := yaml.Unmarshal(text, &k); err != nil {
			return err
		}
		if k.Kind == "Kustomization" {
			out = append(out, filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decode reads an object as its kind has it. A field that the kind does not have is an error, which an API server would only drop.
func decode(t *testing.T, o *unstructured.Unstructured) runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, known, known, json.SerializerOptions{Strict: true})
	typed, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

// Every kustomization builds, and makes nothing but what Kubernetes knows.
func TestBuild(t *testing.T) {
	dirs := kustomizations(t)
	if len(dirs) < 6 {
		t.Fatalf("only %q are found", dirs)
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			for _, o := range build(t, dir) {
				decode(t, o)
			}
		})
	}
}

// What one finds in a namespace, and that nothing is outside of it.
func TestBase(t *testing.T) {
	want := map[string]bool{
		"ServiceAccount vm-operator": true, "Role vm-operator": true, "RoleBinding vm-operator": true, "ConfigMap vm-operator": true,
		"Deployment vm-operator": true, "PodDisruptionBudget vm-operator": true, "PersistentVolumeClaim vmop-image-repository": true,
		"ServiceAccount vm-runner": true, "Role vm-runner": true, "RoleBinding vm-runner": true,
	}
	for _, dir := range []string{"base", "overlays/local-path", "overlays/rook-ceph", "overlays/dev"} {
		t.Run(dir, func(t *testing.T) {
			got := map[string]bool{}
			for _, o := range build(t, dir) {
				got[o.GetKind()+" "+o.GetName()] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +is):\n%s", diff)
			}
		})
	}
}

// find returns an object of a kustomization.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// at is a field of an object by its path; nil if there is none.
func at(o *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	return v
}

// ofVMOperator is a kustomization as the documentation of VM-Operator has it, with our base in the place of its own.
const ofVMOperator = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../base
namespace: vmop-demo
patches:
- patch: |-
    kind: PersistentVolumeClaim
    apiVersion: v1
    metadata:
      name: vmop-image-repository
    spec:
      # Default is ReadOnlyMany
      accessModes:
      - ReadWriteOnce
      resources:
        requests:
          # Default is 100Gi
          storage: 10Gi
      # Default is to use the default storage class
      storageClassName: local-path
- patch: |-
    kind: ConfigMap
    apiVersion: v1
    metadata:
      name: vm-operator
    data:
      config.yaml: |
        "/Manager":
          # "/GuiHttpServer":
            # See section about the GUI
          "/Controller":
            "/Reconciler":
              runnerDataPvc:
                # Default is to use the default storage class
                storageClassName: local-path
`

// inMemory is the base with its components, below a directory, and a site's kustomization.yaml.
func inMemory(t *testing.T, below, site string) []*unstructured.Unstructured {
	t.Helper()
	files := filesys.MakeFsInMemory()
	for _, dir := range []string{"base", "runner", "components"} {
		if err := fs.WalkDir(os.DirFS("."), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return files.WriteFile(path.Join(below, name), text)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.WriteFile("/site/kustomization.yaml", []byte(site)); err != nil {
		t.Fatal(err)
	}
	objects, err := kustomization.BuildIn(files, "/site")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// A kustomization that was written for VM-Operator has its effect on our base.
func TestVMOperatorKustomization(t *testing.T) {
	objects := inMemory(t, "/", ofVMOperator)
	for _, o := range objects {
		if o.GetNamespace() != "vmop-demo" {
			t.Errorf("%s %s is in the namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	claim := find(t, objects, "PersistentVolumeClaim", "vmop-image-repository")
	want := map[string]any{
		"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "local-path", "volumeMode": "Filesystem",
		"resources": map[string]any{"requests": map[string]any{"storage": "10Gi"}},
	}
	if diff := cmp.Diff(want, at(claim, "spec")); diff != "" {
		t.Errorf("the claim (-want +is):\n%s", diff)
	}
	var config map[string]any
	text, _ := at(find(t, objects, "ConfigMap", "vm-operator"), "data", "config.yaml").(string)
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	class, _, _ := unstructured.NestedString(config, "/Manager", "/Controller", "/Reconciler", "runnerDataPvc", "storageClassName")
	if class != "local-path" {
		t.Errorf("the configuration is %v, want the storage class local-path", config)
	}
}

// documented is what the site of docs/install.md makes.
func documented(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return inMemory(t, "/cuvee/kustomize", documentedSite(t))
}

// documentedSite is the kustomization of docs/install.md.
func documentedSite(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	site, _, _ := strings.Cut(rest, "```")
	return site
}

// moved is a kustomization for the namespace vmop-demo, in another one.
func moved(t *testing.T, objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, o := range objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(strings.ReplaceAll(string(text), "vmop-demo", namespace))); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}
