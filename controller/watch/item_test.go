package watch

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/render"
)

// claim is the claim of the VM of a number, as the API server has it.
func claim(t *testing.T, n int) *unstructured.Unstructured {
	t.Helper()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"system-disk-vm-%05[1]d-0","namespace":"lab","uid":"5d6d3c1e-2b9f-4a43-9d0e-%012[1]d","resourceVersion":"%[1]d",
"labels":{"app.kubernetes.io/name":"vm-runner","app.kubernetes.io/instance":"vm-%05[1]d","app.kubernetes.io/managed-by":"vm-operator","cuvee-vm.github.io/owner":"0b7a3c1e-2b9f-4a43-9d0e-%012[1]d","empty":""},
"annotations":{"cuvee-vm.github.io/key":"system-disk","cuvee-vm.github.io/hash":"%032[1]x","cuvee-vm.github.io/keep":"true"},
"managedFields":[{"manager":"cuvee.vm","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:app.kubernetes.io/name":{}},"f:ownerReferences":{"k:{\"uid\":\"0b7a3c1e-2b9f-4a43-9d0e-%012[1]d\"}":{}}},"f:spec":{"k:{\"name\":\"system-disk-vm-%05[1]d-0\"}":{},"f:resources":{}}}}]},
"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"40Gi"}},"volumeMode":"Filesystem","volumeName":"pvc-%[1]d"},"status":{"phase":"Bound"}}`, n)
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func claims() *Kind {
	l := &render.Lookup{Fields: []string{"metadata.name", "metadata.labels", "spec", "status.phase"}}
	return newKind(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, true, project{manager: "cuvee.vm", content: l}, func(*Kind, *Item, *Item) {})
}

// However an item is kept, what is read of it is what there was.
func TestItemIsWhatItWas(t *testing.T) {
	k := claims()
	for n := range 20 {
		object := claim(t, n)
		if n == 7 {
			// One that is unlike the others.
			object.Object["spec"] = map[string]any{"other": strings.Repeat("x", 500) + fmt.Sprint(n)}
		}
		want, err := json.Marshal(k.project.content.Project(claim(t, n).Object))
		if n == 7 {
			want, err = json.Marshal(k.project.content.Project(object.Object))
		}
		if err != nil {
			t.Fatal(err)
		}
		entry, err := json.Marshal(claim(t, n).GetManagedFields()[0].FieldsV1)
		if err != nil {
			t.Fatal(err)
		}
		i, err := k.Learn(object)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // The second time with what the first one has left.
			got, err := i.json()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Fatalf("content of %d (-want +got):\n%s", n, diff)
			}
		}
		if diff := cmp.Diff(string(entry), string(i.Fields())); diff != "" {
			t.Errorf("fields of %d (-want +got):\n%s", n, diff)
		}
		for label, want := range claim(t, n).GetLabels() {
			if got, ok := i.label(label); !ok || got != want {
				t.Errorf("label %s of %d is %q, want %q", label, n, got, want)
			}
		}
		if got, ok := i.label("app.kubernetes.io"); ok {
			t.Errorf("there is a label %q", got)
		}
	}
}

// What is seen again is the same, and has its number; what differs has another one.
func TestItemSerial(t *testing.T) {
	k := claims()
	at := func(version, size string) *Item {
		object := claim(t, 1)
		object.SetResourceVersion(version)
		if err := unstructured.SetNestedField(object.Object, size, "spec", "resources", "requests", "storage"); err != nil {
			t.Fatal(err)
		}
		if err := (store{kind: k}).Add(object); err != nil {
			t.Fatal(err)
		}
		return k.All()[0]
	}
	first := at("1", "40Gi")
	if again := at("1", "40Gi"); again != first {
		t.Error("the same object has become another item")
	}
	later := at("2", "40Gi")
	if later == first || later.Serial() != first.Serial() {
		t.Errorf("a change that nobody looks at has the serial %d, want %d", later.Serial(), first.Serial())
	}
	if larger := at("3", "50Gi"); larger.Serial() == first.Serial() {
		t.Errorf("a change has the serial %d of what was before", larger.Serial())
	}
}

// Ten thousand VMs have a hundred thousand objects: what is kept of one is counted in hundreds of bytes.
func TestItemsAreSmall(t *testing.T) {
	const n, limit = 5000, 700
	k := claims()
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range n {
		if _, err := k.Learn(claim(t, i)); err != nil {
			t.Fatal(err)
		}
	}
	after := memory()
	each := int64(after-before) / n
	t.Logf("%d bytes an item", each)
	if each > limit {
		t.Errorf("an item takes %d bytes, want at most %d", each, limit)
	}
	runtime.KeepAlive(k)
}

// Only what a lookup sees of an object, and nothing else, may stand for what it sees.
func TestKeeps(t *testing.T) {
	kept := map[string]*render.Lookup{
		"Fields":   {Fields: []string{"metadata.name", "spec"}},
		"Metadata": {Fields: []string{"metadata"}, MetadataOnly: true},
		"Whole":    {},
		"Nothing":  nil,
	}
	cases := map[string]struct {
		of     string
		lookup render.Lookup
		want   bool
	}{
		"SameFields":       {"Fields", render.Lookup{Fields: []string{"spec", "metadata.name", "spec"}}, true},
		"FewerFields":      {"Fields", render.Lookup{Fields: []string{"spec"}}, false},
		"WholeOfFields":    {"Fields", render.Lookup{}, false},
		"Metadata":         {"Metadata", render.Lookup{MetadataOnly: true}, true},
		"FieldsOfMetadata": {"Metadata", render.Lookup{Fields: []string{"metadata"}}, false},
		"Whole":            {"Whole", render.Lookup{}, true},
		"FieldsOfWhole":    {"Whole", render.Lookup{Fields: []string{"spec"}}, false},
		"NothingOfWhole":   {"Whole", render.Lookup{Fields: []string{}}, false},
		"Nothing":          {"Nothing", render.Lookup{MetadataOnly: true}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k := newKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, true, project{content: kept[tc.of]}, nil)
			if got := k.Keeps(tc.lookup); got != tc.want {
				t.Errorf("it is %v that %s is what is kept, want %v", got, name, tc.want)
			}
		})
	}
}
