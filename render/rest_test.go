package render_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

// A set at rest has given its memory back, still knows its kinds, and renders what it did before.
func TestRest(t *testing.T) {
	set := load(t, render.Source{Many: true})
	in := render.Input{Document: document(t, fmt.Sprintf(testVM, "web"))}
	before, err := set.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	made := len(set.Makes)
	awake := heap()
	set.Rest()
	if freed := int64(awake) - int64(heap()); freed < 2<<20 {
		t.Errorf("a set at rest has given back %d bytes, want some MiB", freed)
	}
	if set.Kind.Kind != "VirtualMachine" || len(set.Makes) != made {
		t.Errorf("a set at rest is for the kind %q and makes %d kinds, want VirtualMachine and %d", set.Kind.Kind, len(set.Makes), made)
	}
	after, err := set.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifests(t, before), manifests(t, after)); diff != "" {
		t.Errorf("after a rest it renders something else (-before +after):\n%s", diff)
	}
}

// A set that is put to rest while others render with it renders on.
func TestRestMeanwhile(t *testing.T) {
	set := load(t, render.Source{})
	in := render.Input{Document: document(t, fmt.Sprintf(testVM, "web"))}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range 3 {
				if _, err := set.Render(in); err != nil {
					t.Error(err)
				}
				set.Rest()
			}
		})
	}
	group.Wait()
}

// heap is how many bytes are in use.
func heap() uint64 {
	var m runtime.MemStats
	// What has a finalizer, or was in a pool, takes two.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
