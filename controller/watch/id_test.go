package watch

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Every UID is one again, whether it is a UUID as the API server writes them or not, and no two have one id.
func TestItemUID(t *testing.T) {
	uids := map[string]types.UID{
		"UUID":      "5d6d3c1e-2b9f-4a43-9d0e-000000000001",
		"Capitals":  "5D6D3C1E-2B9F-4A43-9D0E-000000000001",
		"Braces":    "{5d6d3c1e-2b9f-4a43-9d0e-000000000001}",
		"URN":       "urn:uuid:5d6d3c1e-2b9f-4a43-9d0e-000000000001",
		"NoDashes":  "5d6d3c1e2b9f4a439d0e000000000001",
		"Zero":      "00000000-0000-0000-0000-000000000000",
		"Other":     "somebody",
		"None":      "",
		"AlmostOne": "5d6d3c1e-2b9f-4a43-9d0e-00000000000g",
	}
	seen := map[id]string{}
	for name, uid := range uids {
		t.Run(name, func(t *testing.T) {
			if other, ok := seen[idOf(uid)]; ok {
				t.Errorf("it has the id of %s", other)
			}
			seen[idOf(uid)] = name
			if (idOf(uid) == id{}) != (uid == "") {
				t.Errorf("its id is %x", idOf(uid))
			}
			k := claims()
			object := claim(t, 1)
			object.SetUID(uid)
			labels := object.GetLabels()
			labels[OwnerLabel] = string(uid)
			object.SetLabels(labels)
			object.SetResourceVersion("v" + name)
			i, err := k.Learn(object)
			if err != nil {
				t.Fatal(err)
			}
			if i.UID() != uid || i.Owner() != uid || i.ResourceVersion() != "v"+name {
				t.Errorf("the item is %q of %q in version %q", i.UID(), i.Owner(), i.ResourceVersion())
			}
			if got := len(k.Owned(uid)); (got == 1) != (uid != "") {
				t.Errorf("its owner has %d", got)
			}
		})
	}
}
