package conformance

import (
	"fmt"
	"strconv"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/token"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// The walk that finds all faults at once accepts and refuses what CUE itself accepts and refuses.
func TestContractIsCUE(t *testing.T) {
	t.Parallel()
	// A set of its own: CUE's contexts are not for several goroutines.
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/vm"})
	if err != nil {
		t.Fatal(err)
	}
	samples := corpus(t)
	for _, name := range sorted(samples) {
		if !sameVerdict(t, set, samples[name]) {
			t.Errorf("sample %s is refused", name)
		}
	}
	p := newPool(samples)
	accepted, refused := 0, 0
	for seed := range uint64(mutants) {
		s, ok := mutant(t, p, samples, mutants+seed)
		switch {
		case !ok:
		case sameVerdict(t, set, s):
			accepted++
		default:
			refused++
		}
		if t.Failed() {
			t.Fatalf("seed %d: %.4000s", mutants+seed, s.text)
		}
	}
	t.Logf("%d mutants are accepted, %d refused", accepted, refused)
	if accepted < refused/10 || refused < accepted/10 {
		t.Errorf("%d mutants are accepted, %d refused: too few of one", accepted, refused)
	}
}

// sameVerdict compares what the walk and CUE say of a sample, and returns it.
func sameVerdict(t *testing.T, set *render.Set, s sample) bool {
	t.Helper()
	faults := set.Check(s.doc)
	object, ok := copied(s.doc.Object).(map[string]any)
	if !ok {
		t.Fatal("document is no object")
	}
	// The status is not its user's, and not looked at.
	delete(object, "status")
	definition, err := set.Definition()
	if err != nil {
		t.Fatal(err)
	}
	v := definition.Unify(cuecontext.New().BuildExpr(expression(t, object)))
	err = v.Validate(cue.Concrete(true), cue.Final())
	if (err == nil) != (len(faults) == 0) {
		t.Errorf("CUE says %v, the walk says:\n%v", err, faults)
	}
	return err == nil
}

// expression writes a document as CUE. Numbers that are not whole stay so.
func expression(t *testing.T, v any) ast.Expr {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return ast.NewNull()
	case map[string]any:
		fields := make([]any, 0, len(v))
		for _, k := range sorted(v) {
			fields = append(fields, &ast.Field{Label: ast.NewString(k), Value: expression(t, v[k])})
		}
		return ast.NewStruct(fields...)
	case []any:
		entries := make([]ast.Expr, len(v))
		for i, x := range v {
			entries[i] = expression(t, x)
		}
		return ast.NewList(entries...)
	case string:
		return ast.NewString(v)
	case bool:
		return ast.NewBool(v)
	}
	kind, text := token.INT, fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		kind, text = token.FLOAT, strconv.FormatFloat(f, 'e', -1, 64)
	}
	if text[0] == '-' {
		return &ast.UnaryExpr{Op: token.SUB, X: ast.NewLit(kind, text[1:])}
	}
	return ast.NewLit(kind, text)
}
