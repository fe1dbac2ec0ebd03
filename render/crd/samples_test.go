package crd_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/render/crd"
)

// TestGood holds that CUE and the API server both take the samples in testdata/<CRD>/good.
func TestGood(t *testing.T) {
	for _, k := range loadKinds(t) {
		server, contract := newServer(t, k), newContract(t, k)
		for _, good := range goodSamples(t, k) {
			t.Run(good.name, func(t *testing.T) {
				for _, f := range server.faults(t, good.object) {
					t.Errorf("API server: %v", f)
				}
				for _, f := range contract.faults(t, good.object) {
					t.Errorf("CUE: %v", f)
				}
			})
		}
	}
}

// badSample is an object with one fault, in testdata/<CRD>/bad.yaml. What every object of the kind has (apiVersion,
// kind, a name) need not be written.
type badSample struct {
	// At is the field that is at fault.
	At string `json:"at"`
	// Rule is the message of the rule that is broken; empty if the field is at fault by itself.
	Rule   string         `json:"rule"`
	Object map[string]any `json:"object"`
}

// TestBad holds that CUE, the API server and package render all refuse the samples with one fault, for that fault, and
// that there is a sample for each rule.
func TestBad(t *testing.T) {
	for _, k := range loadKinds(t) {
		server, contract, templates := newServer(t, k), newContract(t, k), loadTemplates(t, k)
		untried := rules(server)
		for name, bad := range badSamples(t, k) {
			delete(untried, bad.Rule)
			t.Run(name, func(t *testing.T) {
				found := server.faults(t, bad.Object)
				if !slices.ContainsFunc(found, func(f fault) bool {
					if bad.Rule != "" {
						return f.atOrAbove(bad.At) && f.what == bad.Rule
					}
					return f.path == bad.At
				}) || elsewhere(found, bad.At) {
					t.Errorf("API server: want one fault at %s %s, found %v", bad.At, bad.Rule, found)
				}
				found = contract.faults(t, bad.Object)
				if !slices.ContainsFunc(found, func(f fault) bool { return f.path == bad.At }) || elsewhere(found, bad.At) {
					t.Errorf("CUE: want one fault at %s, found %v", bad.At, found)
				}
				found = refusals(t, templates, bad.Object)
				if !slices.ContainsFunc(found, func(f fault) bool { return f.path == bad.At }) || elsewhere(found, bad.At) {
					t.Errorf("render: want one fault at %s, found %v", bad.At, found)
				}
			})
		}
		for rule := range untried {
			t.Errorf("%s: no sample breaks the rule %q", k.Name(), rule)
		}
	}
}

// refusals are the faults that package render finds.
func refusals(t *testing.T, templates *render.Set, object map[string]any) []fault {
	t.Helper()
	_, err := templates.Render(render.Input{Document: render.Document{Object: object}})
	var refused render.Faults
	if err != nil && !errors.As(err, &refused) {
		t.Errorf("render: %v", err)
	}
	var found []fault
	for _, f := range refused {
		found = append(found, fault{path: f.Path, what: f.Message})
	}
	return found
}

// elsewhere says that some of the faults are not at the field. One fault may have several messages: CUE has one for each
// alternative, and the API server some at the object that the field is in, or at what is in the field.
func elsewhere(faults []fault, at string) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return !f.atOrAbove(at) && !strings.HasPrefix(f.path, at+".") })
}

// rules are the messages of all rules of a CustomResourceDefinition.
func rules(s *server) map[string]bool {
	messages := map[string]bool{}
	walk(s.props, "", func(_ string, p *props) {
		for _, r := range p.XValidations {
			messages[r.Message] = true
		}
	})
	return messages
}

// goodSample is an object without fault, in a file of testdata/<CRD>/good.
type goodSample struct {
	name   string
	object map[string]any
}

func goodSamples(t *testing.T, k crd.Kind) []goodSample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", k.Name(), "good", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no good samples of %s (%v)", k.Name(), err)
	}
	var samples []goodSample
	for _, f := range files {
		s := goodSample{name: strings.TrimSuffix(filepath.Base(f), ".yaml")}
		read(t, f, &s.object)
		samples = append(samples, s)
	}
	return samples
}

func badSamples(t *testing.T, k crd.Kind) map[string]badSample {
	t.Helper()
	samples := map[string]badSample{}
	read(t, filepath.Join("testdata", k.Name(), "bad.yaml"), &samples)
	for _, s := range samples {
		object := map[string]any{"apiVersion": k.APIVersion(), "kind": k.Kind.Kind, "metadata": map[string]any{"name": "test"}}
		maps.Copy(object, s.Object)
		maps.Copy(s.Object, object)
	}
	return samples
}

// read decodes a YAML file as the API server does: whole numbers are integers.
func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := utiljson.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
