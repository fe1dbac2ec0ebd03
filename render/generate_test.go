package render_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

// A certificate is asked for by the key of its Secret, which is left alone and without data: only the engine has a pair.
func TestGenerate(t *testing.T) {
	set := load(t, render.Source{})
	for name, engine := range map[string]*render.Engine{"DryRun": nil, "Controller": {Random: "r"}} {
		r, err := set.Render(render.Input{Document: document(t, fmt.Sprintf(testVM, "web")), Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]render.Generate{"consoleTLS": {
			DNSNames: []string{"web.demo.vm.cuvee-vm.github.io"}, ValidFor: "8760h", RenewBefore: "720h",
		}}
		if diff := cmp.Diff(want, r.Generate); diff != "" {
			t.Errorf("%s: generate (-want +got):\n%s", name, diff)
		}
		found := false
		for _, o := range r.Objects {
			if o.Key != "consoleTLS" {
				continue
			}
			found = true
			if o.Policy.Mode != "hold" || bytes.Contains(o.JSON, []byte(`"data"`)) {
				t.Errorf("%s: mode is %s, the Secret %s", name, o.Policy.Mode, o.JSON)
			}
		}
		if !found {
			t.Errorf("%s: there is no Secret for the certificate", name)
		}
	}
}
