package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

func TestProject(t *testing.T) {
	object := map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "y"}},
		"data":     map[string]any{"password": "c2VjcmV0"},
	}
	cases := map[string]struct {
		reason string
		lookup render.Lookup
		want   map[string]any
	}{
		"MetadataOnly": {
			"a Secret's content must not reach the templates",
			render.Lookup{APIVersion: "v1", Kind: "Secret", MetadataOnly: true},
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": object["metadata"]},
		},
		"Fields": {
			"only the fields that are named, at their places; those that are not there are left out",
			render.Lookup{Fields: []string{"metadata.name", "metadata.uid", "status.phase"}},
			map[string]any{"metadata": map[string]any{"name": "a"}},
		},
		"All": {"nothing is named, all is handed in", render.Lookup{}, object},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.lookup.Project(object)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
