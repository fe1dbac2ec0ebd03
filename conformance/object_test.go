package conformance

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/cuvee-vm/cuvee/render"
)

// statefulSet returns the rendered StatefulSet.
func statefulSet(t testing.TB, r *render.Result) *appsv1.StatefulSet {
	t.Helper()
	for _, o := range r.Objects {
		if o.Key != "statefulSet" {
			continue
		}
		var s appsv1.StatefulSet
		if err := json.Unmarshal(o.JSON, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	t.Fatal("no StatefulSet is rendered")
	return nil
}
