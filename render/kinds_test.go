package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

// What a set says about kinds has to be known before there is any custom resource.
func TestKindsAreKnownWithoutAnInput(t *testing.T) {
	set := load(t, render.Source{})
	if set.Finalizer != "cuvee-vm.github.io/vm" {
		t.Errorf("Finalizer is %q", set.Finalizer)
	}
	if diff := cmp.Diff(render.Made{APIVersion: "apps/v1", Kind: "StatefulSet"}, set.Makes["statefulSet"]); diff != "" {
		t.Errorf("makes.statefulSet (-want +got):\n%s", diff)
	}
	want := render.Lookup{APIVersion: "v1", Kind: "Secret", MetadataOnly: true}
	if diff := cmp.Diff(want, set.Watches["displaySecret"]); diff != "" {
		t.Errorf("observe.displaySecret (-want +got):\n%s", diff)
	}
	if got := set.Watches["pod"].Fields; len(got) == 0 {
		t.Error("the fields of observe.pod are not known")
	}
}
