package render_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   []map[string]any
		faults []string
	}{
		"Several": {
			"documents are separated as in kubectl, empty ones are none",
			"---\na: 1\n---\n# nothing\n---\nb: [x, 2.5]\n",
			[]map[string]any{{"a": int64(1)}, {"b": []any{"x", 2.5}}}, nil,
		},
		"BooleansOfYAML11": {
			"kubectl takes yes for true",
			"a: yes\nb: off\nc: \"yes\"\n",
			[]map[string]any{{"a": true, "b": false, "c": "yes"}}, nil,
		},
		"List": {
			"a List is what kubectl get prints of several objects",
			"kind: List\nitems: [{a: 1}, {b: 2}]\n",
			[]map[string]any{{"a": int64(1)}, {"b": int64(2)}}, nil,
		},
		"JSON":    {"JSON is YAML", `{"a": {"b": null}}`, []map[string]any{{"a": map[string]any{"b": nil}}}, nil},
		"Anchors": {"anchors and merges are resolved", "a: &x {b: 1}\nc: {<<: *x, d: 2}\n", []map[string]any{{"a": map[string]any{"b": int64(1)}, "c": map[string]any{"b": int64(1), "d": int64(2)}}}, nil},
		"TwoFaults": {
			"a fault in one document does not hide one in the next, and lines count from the top of the file",
			"a: 1\na: 2\n---\nb: [\n",
			nil, []string{`f.yaml:2:1: key "a" already set in map`, "f.yaml:4:1: is not YAML: did not find expected node content"},
		},
		"NoObject": {"a list is no object", "- a\n", nil, []string{"f.yaml: is not an object"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			docs, err := render.Decode("f.yaml", []byte(tc.text))
			var faults render.Faults
			var got []string
			if errors.As(err, &faults) {
				for _, f := range faults {
					got = append(got, f.String())
				}
			} else if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.faults, got); diff != "" {
				t.Errorf("%s: faults (-want +got):\n%s", tc.reason, diff)
			}
			if tc.faults != nil {
				return
			}
			var objects []map[string]any
			for _, d := range docs {
				objects = append(objects, d.Object)
			}
			if diff := cmp.Diff(tc.want, objects); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("a: 1\n---\nb: [x, {c: &a 1}]\n"))
	f.Add([]byte("kind: List\nitems:\n- {}\n- 1\n"))
	f.Add([]byte("--- {a: *b}\n"))
	set := load(f, render.Source{})
	f.Fuzz(func(_ *testing.T, data []byte) {
		docs, _ := render.Decode("f", data)
		for _, d := range docs {
			// Nothing panics, whatever the shape.
			_ = set.Check(d)
		}
	})
}
