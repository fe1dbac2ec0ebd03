package managedfields_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/controller/managedfields"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

func TestMissing(t *testing.T) {
	const containers = `{"f:spec":{"f:containers":{"k:{\"name\":\"vm\"}":{".":{},"f:name":{},"f:image":{},"f:args":{}}}}}`
	const ports = `{"f:spec":{"f:ports":{"k:{\"port\":5900,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`
	cases := map[string]struct {
		reason, entry, object, want string
	}{
		"Identity":           {"names belong to nobody", `{"f:data":{"f:a":{}}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"y","uid":"z"},"data":{"a":"1"}}`, ""},
		"Scalar":             {"a field that someone took", `{"f:data":{"f:b":{}}}`, `{"data":{"a":"1","b":"2"}}`, ".data.a"},
		"AllTaken":           {"a whole struct that someone took", `{"f:metadata":{"f:labels":{"f:x":{}}}}`, `{"metadata":{"labels":{"x":"1"}},"spec":{"replicas":1}}`, ".spec"},
		"Null":               {"the server drops null", `{}`, `{"a":null}`, ""},
		"EmptyMap":           {"nothing in it can be owned", `{}`, `{"spec":{"a":{}}}`, ""},
		"EmptyList":          {"nothing in it can be owned", `{"f:spec":{"f:x":{}}}`, `{"spec":{"x":1,"a":[]}}`, ""},
		"AtomicMap":          {"owned as a whole", `{"f:spec":{"f:selector":{}}}`, `{"spec":{"selector":{"a":"b"}}}`, ""},
		"AtomicList":         {"owned as a whole", containers, `{"spec":{"containers":[{"name":"vm","args":["a","b"]}]}}`, ""},
		"KeyedItem":          {"an item that is not owned", containers, `{"spec":{"containers":[{"name":"vm"},{"name":"x"}]}}`, ".spec.containers[1]"},
		"FieldOfKeyedItem":   {"a field of an item that someone took", containers, `{"spec":{"containers":[{"name":"vm","image":"i","env":[{"name":"A"}]}]}}`, ".spec.containers[0].env"},
		"KeyWithDefault":     {"the server adds protocol: TCP to the key", ports, `{"spec":{"ports":[{"name":"spice","port":5900}]}}`, ""},
		"OtherKey":           {"another port", ports, `{"spec":{"ports":[{"name":"spice","port":5901}]}}`, ".spec.ports[0]"},
		"Set":                {"a value of a set", `{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}`, `{"metadata":{"finalizers":["a","b"]}}`, ".metadata.finalizers[1]"},
		"NameWithDots":       {"names are taken whole", `{"f:metadata":{"f:labels":{"f:a.b/c":{}}}}`, `{"metadata":{"labels":{"a.b/c":"1"}}}`, ""},
		"EmptyEntry":         {"nothing is owned", `{}`, `{"data":{"a":"1"}}`, ".data"},
		"OwnerReferenceByID": {"keys may be texts of any kind", `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"1-2\"}":{}}}}`, `{"metadata":{"ownerReferences":[{"uid":"1-2","name":"a"}]}}`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := managedfields.Missing([]byte(tc.entry), object(t, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMissingOfBrokenEntry(t *testing.T) {
	if _, err := managedfields.Missing([]byte("{"), nil); err == nil {
		t.Error("no error")
	}
}

func TestOwned(t *testing.T) {
	entry := `{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:type":{},"f:status":{}}},"f:image":{},"f:handled":{"f:restart":{}},"f:osinfo":{}}`
	status := `{"image":"i","cpus":2,"handled":{"restart":"1","other":"2"},"osinfo":{"id":"x"},"conditions":[{"type":"Ready","status":"True"},{"type":"Running","status":"True"}]}`
	want := object(t, `{"image":"i","handled":{"restart":"1"},"osinfo":{"id":"x"},"conditions":[{"type":"Ready","status":"True"}]}`)
	got, err := managedfields.Owned([]byte(entry), object(t, status))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
