package conformance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cuvee-vm/cuvee/render"
)

// mutants is how many mutated samples a normal run tries.
const mutants = 800

// Whatever a custom resource says, it is refused with faults, or it becomes what the templates write, and nothing else.
func TestMutants(t *testing.T) {
	samples := corpus(t)
	ground := newGround(t, samples)
	p := newPool(samples)
	const parts = 4
	tried, rendered := make([]int, parts), make([]int, parts)
	t.Run("All", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := part; seed < mutants && !t.Failed(); seed += parts {
					s, ok := mutant(t, p, samples, uint64(seed))
					if !ok {
						continue
					}
					tried[part]++
					if ground.try(t, s) {
						rendered[part]++
					}
					if t.Failed() {
						t.Logf("seed %d: %.4000s", seed, s.text)
					}
				}
			})
		}
	})
	sum := func(n []int) (s int) {
		for _, x := range n {
			s += x
		}
		return s
	}
	t.Logf("%d of %d were rendered", sum(rendered), sum(tried))
	// Else the mutations are too wild to tell anything about renders.
	if sum(rendered) < sum(tried)/10 {
		t.Errorf("only %d of %d mutants were rendered", sum(rendered), sum(tried))
	}
}

// FuzzMutant does the same with other mutations:
//
//	go test ./conformance -run '^$' -fuzz FuzzMutant
func FuzzMutant(f *testing.F) {
	samples := corpus(f)
	ground := newGround(f, samples)
	p := newPool(samples)
	f.Add(uint64(mutants))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if s, ok := mutant(t, p, samples, seed); ok {
			ground.try(t, s)
			if t.Failed() {
				t.Logf("%s", s.text)
			}
		}
	})
}

// found are those that have failed once.
var found = []string{
	"cpuModel: 'EPYC,x=1,-x'",
}

// FuzzText does the same with any text.
func FuzzText(f *testing.F) {
	samples := corpus(f)
	ground := newGround(f, samples)
	for _, name := range sorted(samples) {
		f.Add(samples[name].text)
	}
	for _, text := range found {
		f.Add([]byte("apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: found}\nspec: {vm: {" + text + "}}\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, err := render.Decode("text.yaml", text)
		var faults render.Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("read: %v", err)
		}
		if err == nil && len(docs) > 0 {
			ground.try(t, sample{text: text, doc: docs[0], cluster: docs[1:]})
		}
	})
}

// ground is what renders are compared with.
type ground struct {
	set     *render.Set
	allowed shape
}

func newGround(t testing.TB, samples map[string]sample) *ground {
	t.Helper()
	return &ground{templates(t), allowed(t, samples)}
}

// try renders a sample, and reports whether it is not refused.
func (g *ground) try(t testing.TB, s sample) bool {
	t.Helper()
	r, err := g.set.RenderObserving(render.Input{Document: s.doc, Engine: engine}, s.cluster)
	var faults render.Faults
	switch {
	case errors.As(err, &faults):
		if len(faults) == 0 {
			t.Error("refused without a fault")
		}
		for _, f := range faults {
			if f.Message == "" {
				t.Errorf("fault without a message: %+v", f)
			}
		}
		return false
	case err != nil:
		t.Errorf("refused, but not with faults: %v", err)
		return false
	}
	checkTypes(t, r)
	if more := shapeOf(t, r).beyond(g.allowed); len(more) > 0 {
		t.Errorf("rendered, but written by no template:\n%q", more)
	}
	c := configOf(t, r)
	checkArguments(t, c)
	checkPod(t, r, len(c.Boot.Taps) > 0)
	return true
}
