package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing", "spec": map[string]any{
			"size": int64(1), "text": "{{ $labels.x }}", "list": []any{map[string]any{"name": "a", "value": "b"}, map[string]any{"name": "c"}},
		},
	}}
}

func TestTemplate(t *testing.T) {
	const want = `kind: Thing
spec:
  list:
  - name: {{ .Values.name }}
    value: b
  - more
  {{- with .Values.map }}
  map:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  size: {{ .Values.size }}
  text: '{{ "{{" }} $labels.x }}'
  {{- with .Values.word }}
  word: {{ . | quote }}
  {{- end }}
`
	got, err := template(object(), []change{
		{at: "spec.size", text: "{{ .Values.size }}"},
		{at: "spec.list.0.name", text: "{{ .Values.name }}"},
		{at: "spec.list.1", lines: "- more"},
		{at: "spec.map", add: true, with: ".Values.map"},
		{at: "spec.word", add: true, with: ".Values.word", scalar: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template (-want +is):\n%s", diff)
	}
}

// A kustomization that has changed is noticed, and no value is without effect.
func TestFieldIsGone(t *testing.T) {
	cases := map[string]struct {
		reason string
		change change
		want   string
	}{
		"Gone":         {"A field that is to be a value is not there.", change{at: "spec.height", text: "x"}, "spec.height: that the field is there is false"},
		"There":        {"A field that is to be added is there.", change{at: "spec.size", add: true, text: "x"}, "spec.size: that the field is there is true"},
		"NoSuchItem":   {"A list is shorter.", change{at: "spec.list.2", lines: "x"}, "spec.list.2: there is no such item: the list has 2"},
		"NotAList":     {"A list is no list any more.", change{at: "spec.size.0.name", text: "x"}, "spec.size.0.name: 0 is no map or list"},
		"FieldInField": {"A map is gone.", change{at: "spec.more.size", text: "x"}, "spec.more.size: that the field is there is false"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := template(object(), []change{tc.change}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\ngot %v, want %s", tc.reason, err, tc.want)
			}
		})
	}
}
