package crd_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/load"
	cuejson "cuelang.org/go/encoding/json"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render/crd"
)

// contract judges objects by the CUE definitions.
type contract struct {
	kind  crd.Kind
	rules cue.Value
}

func newContract(t *testing.T, k crd.Kind) *contract {
	t.Helper()
	inst := load.Instances([]string{"./schema"}, &load.Config{FS: cuvee.Files, Dir: "/"})[0]
	schema := cuecontext.New().BuildInstance(inst)
	c := &contract{kind: k, rules: schema.LookupPath(cue.MakePath(cue.Def(k.Kind.Kind + "Faults")))}
	if err := c.rules.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// faults are those against the definitions or, if there are none, against the rules.
func (c *contract) faults(t *testing.T, object map[string]any) []fault {
	t.Helper()
	input := c.value(t, object)
	faults := invalid(c.kind.Definition.Unify(input))
	if status := input.LookupPath(cue.ParsePath("status")); status.Exists() {
		for _, f := range invalid(c.kind.Status.Unify(status)) {
			// CUE's paths are from the root of the value, which is the input's, too.
			faults = append(faults, fault{path: "status." + strings.TrimPrefix(f.path, "status."), what: f.what})
		}
	}
	if len(faults) > 0 {
		return faults
	}
	var broken []struct{ Path, Message string }
	if err := c.rules.FillPath(cue.ParsePath("input"), input).LookupPath(cue.ParsePath("faults")).Decode(&broken); err != nil {
		t.Fatalf("rules of #%sFaults: %v", c.kind.Kind.Kind, err)
	}
	for _, b := range broken {
		faults = append(faults, fault{path: b.Path, what: b.Message})
	}
	return faults
}

func (c *contract) value(t *testing.T, object map[string]any) cue.Value {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	expr, err := cuejson.Extract("sample", text)
	if err != nil {
		t.Fatal(err)
	}
	return cuecontext.New().BuildExpr(expr)
}

func invalid(v cue.Value) []fault {
	var faults []fault
	for _, e := range errors.Errors(v.Validate(cue.Concrete(true), cue.Final())) {
		format, args := e.Msg()
		faults = append(faults, fault{path: kubernetesPath(e.Path()), what: fmt.Sprintf(format, args...)})
	}
	return faults
}

// kubernetesPath writes a path of CUE's as Kubernetes does: without the definition, without quotes, with [] around an index.
func kubernetesPath(labels []string) string {
	var at []any
	for _, label := range labels {
		if strings.HasPrefix(label, "#") {
			continue
		}
		if plain, err := strconv.Unquote(label); err == nil {
			label = plain
		}
		if i, err := strconv.Atoi(label); err == nil {
			at = append(at, i)
			continue
		}
		at = append(at, label)
	}
	return fieldPath(at)
}
