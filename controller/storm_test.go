package controller_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// switched is a source whose package becomes another one.
type switched struct {
	now     atomic.Pointer[controller.Package]
	changed chan struct{}
}

func (s *switched) Current() []controller.Package { return []controller.Package{*s.now.Load()} }
func (s *switched) Changed() <-chan struct{}      { return s.changed }

// gate lets patches of StatefulSets through one by one, once it is shut.
type gate struct {
	http.RoundTripper
	shut atomic.Bool
	// waiting is how many wait now, and pass lets one of them go on.
	waiting atomic.Int64
	pass    chan struct{}

	mu sync.Mutex
	// came are the StatefulSets that have come to it.
	came map[string]bool
}

func (g *gate) has(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.came[name]
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.shut.Load() && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/statefulsets/") {
		g.mu.Lock()
		g.came[path.Base(r.URL.Path)] = true
		g.mu.Unlock()
		g.waiting.Add(1)
		defer g.waiting.Add(-1)
		select {
		case <-g.pass:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return g.RoundTripper.RoundTrip(r)
}

func (g *gate) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.came, name)
}

func paintedPackage(t *testing.T, color string) *controller.Package {
	t.Helper()
	p, err := controller.Load(cuvee.Files, fstest.MapFS{"lab.cue": {Data: []byte("package vm\n\n" + painted(color) + "\n")}}, "lab", "vm")
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// After a change of the templates no more VMs are worked on at a time than there are workers for, and what a user makes or changes
// meanwhile is done next, and not after all others.
func TestReloadLeavesRoom(t *testing.T) {
	const vms, workers = 10, 2
	c := newNamespace(t)
	source := &switched{changed: make(chan struct{}, 1)}
	source.now.Store(paintedPackage(t, "red"))
	config := rest.CopyConfig(server.Config)
	c.agent = "engine-" + c.namespace
	config.UserAgent = c.agent
	hc, err := rest.HTTPClientFor(config)
	c.must(err)
	g := &gate{RoundTripper: hc.Transport, pass: make(chan struct{}), came: map[string]bool{}}
	hc.Transport = g
	c.startWith(config, hc, source)
	for i := range vms {
		c.create(vmManifest, fmt.Sprintf("vm-%d", i))
	}
	for i := range vms {
		c.applied(fmt.Sprintf("vm-%d", i))
	}
	c.quiet()

	g.shut.Store(true)
	source.now.Store(paintedPackage(t, "blue"))
	source.changed <- struct{}{}
	full := func() {
		c.eventually(func() string {
			if n := g.waiting.Load(); n != workers {
				return fmt.Sprintf("%d VMs are worked on, want %d", n, workers)
			}
			return ""
		})
	}
	full()
	// One that has had its turn: what a user changes of it is new work.
	g.pass <- struct{}{}
	done := ""
	c.eventually(func() string {
		for i := range vms {
			if vm := fmt.Sprintf("vm-%d", i); c.color(vm) == "blue" {
				done = vm
				return ""
			}
		}
		return "no VM has become blue"
	})
	full()
	g.forget(done)
	vm := c.vm(done)
	c.must(unstructured.SetNestedField(vm.Object, "Stopped", "spec", "vm", "state"))
	c.must(api.Update(c.Context(), vm))
	c.create(vmManifest, "new")
	left := func() (n int) {
		for i := range vms {
			if vm := fmt.Sprintf("vm-%d", i); vm != done && !g.has(vm) {
				n++
			}
		}
		return n
	}
	for (!g.has(done) || !g.has("new")) && left() > 0 {
		g.pass <- struct{}{}
		full()
	}
	if !g.has(done) || !g.has("new") {
		t.Error("what a user has changed had to wait for all other VMs")
	}
	close(g.pass)
	for i := range vms {
		c.untilColor(fmt.Sprintf("vm-%d", i), "blue")
	}
	c.untilColor("new", "blue")
}
