package render_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

// A set that was loaded to render many times makes what any other makes.
func TestManyRendersTheSame(t *testing.T) {
	site := fstest.MapFS{"lab.cue": {Data: []byte(`package vm

settings: disk: storageClassName: "fast"
settings: loadBalancerService: {enabled: true, labels: tier: settings.disk.storageClassName}
objects: [=~"-disk$"]: metadata: annotations: backup: "nightly"
`)}}
	cases := map[string]struct {
		reason string
		src    render.Source
		in     render.Input
	}{
		"BuiltIn": {"settings are plain values", render.Source{}, render.Input{}},
		"Site":    {"a site's settings may refer to other settings", render.Source{Site: site, SiteName: "lab"}, render.Input{}},
		"Conditional": {
			"settings of some custom resources only must not be frozen",
			render.Source{Site: fstest.MapFS{"lab.cue": {Data: []byte("package vm\n\nif input.metadata.name == \"web\" {\n\tsettings: disk: volumeMode: \"Filesystem\"\n}\n")}}, SiteName: "lab"},
			render.Input{},
		},
		"Local": {
			"settings that refer to what is filled in later must not be frozen",
			render.Source{Package: "templates/vm/local"},
			render.Input{Values: map[string]any{"host": map[string]any{"dataDir": "/data", "runtimeDir": "/run/x", "imageDir": "/cd", "accelerator": "tcg"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, many := range []bool{false, true} {
				tc.src.Many = many
				tc.in.Document = document(t, fmt.Sprintf(testVM, "web"))
				r, err := load(t, tc.src).Render(tc.in)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = manifests(t, r)
			}
			if diff := cmp.Diff(got[0], got[1]); diff != "" {
				t.Errorf("%s (-once +many):\n%s", tc.reason, diff)
			}
		})
	}
}
