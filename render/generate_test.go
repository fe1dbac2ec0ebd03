package render_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

// A certificate is asked for by name, and is in its Secret only while it is due: otherwise the Secret is left alone.
func TestGenerate(t *testing.T) {
	set := load(t, render.Source{})
	memo := render.NewMemo(set)
	pair := map[string]string{"tls.crt": "Y2VydA==", "tls.key": "a2V5", "ca.crt": "Y2E="}
	cases := map[string]struct {
		engine *render.Engine
		mode   string
		data   bool
	}{
		"DryRun":    {mode: "hold"},
		"NothingIs": {engine: &render.Engine{Random: "r"}, mode: "hold"},
		"Due":       {engine: &render.Engine{Random: "r", Generated: map[string]map[string]string{"consoleTLS": pair}}, mode: "apply", data: true},
		"NoMore":    {engine: &render.Engine{Random: "r"}, mode: "hold"},
	}
	for _, name := range []string{"DryRun", "NothingIs", "Due", "NoMore"} {
		tc := cases[name]
		// The memo is the same, so that it is seen to tell them apart.
		r, err := memo.Render(render.Input{Document: document(t, fmt.Sprintf(testVM, "web")), Engine: tc.engine})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]render.Generate{"consoleTLS": {
			Secret: "web-console-tls", DNSNames: []string{"web.demo.vm.cuvee-vm.github.io"}, ValidFor: "8760h", RenewBefore: "720h",
		}}
		if diff := cmp.Diff(want, r.Generate); diff != "" {
			t.Errorf("%s: generate (-want +got):\n%s", name, diff)
		}
		for _, o := range r.Objects {
			if o.Key != "consoleTLS" {
				continue
			}
			if o.Policy.Mode != tc.mode || bytes.Contains(o.JSON, []byte(`"tls.key":"a2V5"`)) != tc.data {
				t.Errorf("%s: mode is %s, the Secret %s", name, o.Policy.Mode, o.JSON)
			}
		}
	}
}
