package controller_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

// reloading is an engine that follows a site's directory.
type reloading struct {
	*cluster
	dir   string
	store *templateset.Store
}

// newReloading starts one with a site's file.
func newReloading(t *testing.T, text string) *reloading {
	t.Helper()
	r := &reloading{cluster: newNamespace(t), dir: t.TempDir()}
	r.edit(text)
	r.run()
	return r
}

func (r *reloading) edit(text string) {
	r.Helper()
	r.must(os.WriteFile(filepath.Join(r.dir, "lab.cue"), []byte("package vm\n\n"+text+"\n"), 0o600))
}

// run starts the engine and its store, until r.stop.
func (r *reloading) run() {
	r.Helper()
	client, err := kubernetes.NewForConfig(server.Config)
	r.must(err)
	var engine *controller.Engine
	r.store, err = templateset.New(r.Context(), templateset.Options{
		BuiltIn: cuvee.Files, Directory: r.dir, Interval: 20 * time.Millisecond, Settle: 200 * time.Millisecond, Retry: 100 * time.Millisecond,
		Check:  func(ctx context.Context, c templateset.Candidate) error { return engine.Check(ctx, c) },
		Keeper: controller.TemplateKeeper{ConfigMaps: client.CoreV1().ConfigMaps(r.namespace)},
	})
	r.must(err)
	engine = r.start(r.store)
	stopEngine := r.stop
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.store.Start(ctx); err != nil {
			r.log(err.Error())
		}
	}()
	r.stop = func() { cancel(); <-done; stopEngine() }
	r.Cleanup(func() { r.stop() })
}

// color is what the site's file labels a VM's StatefulSet with.
func (c *cluster) color(vm string) string {
	s := c.get("apps/v1", "StatefulSet", vm)
	if s == nil {
		return ""
	}
	return s.GetLabels()["color"]
}

func (c *cluster) untilColor(vm, color string) {
	c.Helper()
	c.eventually(func() string {
		if got := c.color(vm); got != color {
			return "the StatefulSet of " + vm + " is " + got + ", want " + color
		}
		return ""
	})
}

func painted(color string) string {
	return `objects: statefulSet: metadata: labels: color: "` + color + `"`
}

// A good edit reaches every VM, a bad one none; going back ends it. A pod template stays what it was, so no VM restarts.
func TestHotReload(t *testing.T) {
	r := newReloading(t, painted("red"))
	r.create(vmManifest, "a")
	r.create(vmManifest, "b")
	r.untilColor("a", "red")
	r.untilColor("b", "red")
	template := at(r.get("apps/v1", "StatefulSet", "a"), "spec", "template")

	r.edit(painted("blue"))
	r.untilColor("a", "blue")
	r.untilColor("b", "blue")
	if diff := cmp.Diff(template, at(r.get("apps/v1", "StatefulSet", "a"), "spec", "template")); diff != "" {
		t.Errorf("the pod template has changed:\n%s", diff)
	}

	r.quiet()
	mark := r.mark()
	r.edit(`settings: vm: maximumCpus: "4"`)
	r.untilProblem("")
	r.edit(painted("blue"))
	r.eventually(func() string {
		if r.store.Problem() != nil {
			return "the problem stays"
		}
		return ""
	})
	r.quiet()
	for _, w := range r.writes(mark) {
		t.Errorf("a bad edit that was taken back has written: %s", w)
	}
}

func (r *reloading) untilProblem(object string) {
	r.Helper()
	r.eventually(func() string {
		if p := r.store.Problem(); p == nil || p.Object != object || strings.Contains(p.Reason, "could not be checked") {
			return "there is no such problem: " + object
		}
		return ""
	})
}

// An edit that compiles, and that a VM of the cluster does not render with, is refused for that VM, also by a manager that
// starts with it. It is taken when the site says that it accepts that, and then the VM keeps what it has.
func TestHotReloadBreaksVM(t *testing.T) {
	r := newReloading(t, painted("red"))
	r.create(vmManifest, "fine")
	r.create(strings.Replace(vmManifest, "maximumRam: 1Gi", "maximumRam: 3Gi", 1), "large")
	r.untilColor("fine", "red")
	r.untilColor("large", "red")

	r.edit(painted("blue") + `
if input.spec.vm.maximumRam != _|_ if input.spec.vm.maximumRam == "3Gi" {
	faults: large: {path: "spec.vm.maximumRam", message: "is too large for this site"}
}`)
	object := "VirtualMachine " + r.namespace + "/large"
	r.untilProblem(object)
	if got := r.color("fine"); got != "red" {
		t.Errorf("fine is %s", got)
	}
	r.stop()
	r.run()
	r.untilProblem(object)
	if got := r.color("fine"); got != "red" {
		t.Errorf("after a restart fine is %s", got)
	}

	r.must(os.WriteFile(filepath.Join(r.dir, templateset.AcceptFile), []byte(object+"\n"), 0o600))
	r.untilColor("fine", "blue")
	r.waitFor("large", "Ready", "False", "InvalidSpec")
	if got := r.color("large"); got != "red" {
		t.Errorf("large is %s", got)
	}
}
