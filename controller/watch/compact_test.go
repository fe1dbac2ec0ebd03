package watch

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// What is found stays what it was when the items move, and who has one of before has what he had.
func TestCompact(t *testing.T) {
	const n = 3*together + 7
	k := claims()
	labels := map[string]string{"app.kubernetes.io/instance": "vm-00300"}
	learn := func(number, version int) {
		t.Helper()
		object := claim(t, number)
		object.SetResourceVersion(fmt.Sprint(version))
		if number%10 == 0 {
			annotations := object.GetAnnotations()
			annotations[PatchAnnotation] = "somebody"
			object.SetAnnotations(annotations)
		}
		if _, err := k.Learn(object); err != nil {
			t.Fatal(err)
		}
	}
	found := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		note := func(how string, items []*Item) {
			for _, i := range items {
				content, err := i.json()
				if err != nil {
					t.Fatal(err)
				}
				instance, _ := i.label("app.kubernetes.io/instance")
				out[how+" "+i.Ref().String()] = fmt.Sprint(i.UID(), i.Owner(), i.ResourceVersion(), i.Serial(), instance, string(i.Fields()), string(content))
			}
		}
		note("all", k.All())
		note("patched", k.Patched("somebody"))
		note("labels", k.Find(k.ByLabels("lab", labels)))
		for number := range n {
			owner := types.UID(fmt.Sprintf("0b7a3c1e-2b9f-4a43-9d0e-%012d", number))
			note("owned", k.Owned(owner))
			note("named", k.Find(k.ByName("lab", fmt.Sprintf("system-disk-vm-%05d-0", number))))
		}
		return out
	}
	for number := range n {
		learn(number, 1+number)
	}
	held := k.Get(types.NamespacedName{Namespace: "lab", Name: "system-disk-vm-00300-0"})
	want := found()
	if len(want) < 3*n {
		t.Fatalf("only %d were found", len(want))
	}
	k.compact()
	if diff := cmp.Diff(want, found()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
	moved := k.Get(held.Ref())
	if moved == held {
		t.Error("no item has moved")
	}
	if content, err := held.json(); err != nil || held.Name() != moved.Name() || len(content) == 0 {
		t.Errorf("who has an item of before has %q, %s, %v", held.Name(), content, err)
	}

	// A change is one, and few changes move nothing.
	learn(300, 100000)
	changed := k.Get(held.Ref())
	if changed == moved || changed.ResourceVersion() != "100000" {
		t.Errorf("after a change it is of version %s", changed.ResourceVersion())
	}
	if err := (store{kind: k}).Delete(claim(t, 299)); err != nil {
		t.Fatal(err)
	}
	want = found()
	k.compact()
	if k.Get(held.Ref()) != changed {
		t.Error("items have moved after few changes")
	}
	for number := range n {
		if number != 299 {
			learn(number, 200000+number)
		}
	}
	if diff := cmp.Diff(len(want), len(found())); diff != "" {
		t.Errorf("number of what is found (-want +got):\n%s", diff)
	}
	k.compact()
	if k.Get(held.Ref()) == changed {
		t.Error("no item has moved after many changes")
	}
}
