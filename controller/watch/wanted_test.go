package watch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// Who wants to know about an address is told, also one of many, until he does not want to any more.
func TestWanted(t *testing.T) {
	w := newWanted()
	vm := func(n int) types.NamespacedName {
		return types.NamespacedName{Namespace: "a", Name: fmt.Sprintf("vm-%d", n)}
	}
	check := func(a Address, want ...int) {
		t.Helper()
		var names, got []string
		for _, n := range want {
			names = append(names, vm(n).Name)
		}
		for _, who := range w.of(a) {
			got = append(got, who.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("who wants %s (-want +got):\n%s", a, diff)
		}
	}
	check("a/own")
	w.add("a/own", new(vm(1)))
	w.add("a/own", new(vm(1)))
	check("a/own", 1)
	w.remove("a/own", vm(2))
	check("a/own", 1)
	for n := range 3 {
		w.add("a/shared", new(vm(n)))
	}
	check("a/shared", 0, 1, 2)
	w.remove("a/shared", vm(0))
	w.remove("a/shared", vm(2))
	check("a/shared", 1)
	w.add("a/shared", new(vm(2)))
	check("a/shared", 1, 2)
	w.remove("a/shared", vm(1))
	w.remove("a/shared", vm(2))
	w.remove("a/own", vm(1))
	check("a/shared")
	check("a/own")
	if len(w.one) != 0 || len(w.many) != 0 {
		t.Errorf("left: %v %v", w.one, w.many)
	}
}
