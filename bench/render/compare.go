package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/render"
)

// compareObjects makes sure that both ways of rendering do the same work: the objects must be equal. What may differ is
//
//   - the order of lists that were made from maps (arguments, volumes, sources), and of the keys in texts,
//   - digests over such texts: the config's revision and the cloud-init data's,
//   - a few fields (tolerated), so that the figures can be had while the templates change; they are told.
func compareObjects(s *set, helm *helmChart, vm *variants) error {
	object := vm.next()
	r, err := s.Render(render.Input{Document: render.Document{Object: object}})
	if err != nil {
		return err
	}
	ours := map[string]any{}
	for _, o := range r.Objects {
		var m map[string]any
		if err := json.Unmarshal(o.JSON, &m); err != nil {
			return err
		}
		if err := put(ours, m); err != nil {
			return err
		}
	}
	objects, err := helm.objects(object, true)
	if err != nil {
		return fmt.Errorf("helm: %w", err)
	}
	theirs := map[string]any{}
	for _, m := range objects {
		if err := put(theirs, m); err != nil {
			return fmt.Errorf("helm: %w", err)
		}
	}
	var d differences
	if cmp.Equal(theirs, ours, cmp.Reporter(&d)) {
		return nil
	}
	told := strings.Join(d.lines, "\n")
	if len(d.lines) > tolerated {
		return fmt.Errorf("bench/chart does not make the same objects, so it is nothing to compare with:\n%s", told)
	}
	fmt.Fprintf(os.Stderr, "bench/chart makes not quite the same objects:\n%s\n", told)
	return nil
}

// tolerated is how many values may differ between the objects of the two; they have about a thousand.
const tolerated = 10

// differences takes down where two values differ.
type differences struct {
	path  cmp.Path
	lines []string
}

// PushStep, Report and PopStep are called by package cmp.
func (d *differences) PushStep(s cmp.PathStep) { d.path = append(d.path, s) }

// Report is called for each pair of values.
func (d *differences) Report(r cmp.Result) {
	if !r.Equal() {
		theirs, ours := d.path.Last().Values()
		d.lines = append(d.lines, fmt.Sprintf("%v: helm %v, cuvee %v", d.path.GoString(), theirs, ours))
	}
}

// PopStep is called at the end of a step.
func (d *differences) PopStep() { d.path = d.path[:len(d.path)-1] }

// put adds an object under its kind and name, in a form that can be compared.
func put(to map[string]any, object map[string]any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	metadata := at(m, "metadata")
	if annotations := at(metadata, "annotations"); annotations["cuvee-vm.github.io/content"] != nil {
		annotations["cuvee-vm.github.io/content"] = "(digest)"
	}
	if err := openTexts(m); err != nil {
		return fmt.Errorf("%v %v: %w", m["kind"], metadata["name"], err)
	}
	to[fmt.Sprintf("%v %v", m["kind"], metadata["name"])] = sorted(m)
	return nil
}

// openTexts replaces the documents in a ConfigMap or Secret by their content.
func openTexts(m map[string]any) error {
	data := at(m, "data")
	for key, v := range data {
		text, _ := v.(string)
		if m["kind"] == "Secret" {
			decoded, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			text = string(decoded)
			if key == "user-data" && !strings.HasPrefix(text, "#cloud-config\n") {
				return fmt.Errorf("user-data begins with %.20q", text)
			}
		}
		var content any
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			return fmt.Errorf("%s: %w\n%s", key, err, text)
		}
		if config, ok := content.(map[string]any); ok && key == "config.json" {
			config["revision"] = "(digest)"
		}
		data[key] = content
	}
	return nil
}

// sorted sorts all lists.
func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = sorted(x)
		}
	case []any:
		for i, x := range v {
			v[i] = sorted(x)
		}
		slices.SortFunc(v, func(a, b any) int {
			// They come from JSON, so they can be written as JSON.
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return bytes.Compare(x, y)
		})
	}
	return v
}
