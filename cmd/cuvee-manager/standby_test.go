package main

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// untilConfigMap waits for a ConfigMap in the world.
func (w *world) untilConfigMap(name string) {
	w.Helper()
	w.eventually(func() string { return w.has("", "configmaps", name) })
}

// TestStandby has two managers that share a Lease. The one that waits is ready, follows the templates, and writes nothing; it works
// when the other one ends.
func TestStandby(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "lab.cue")
	w.must(os.WriteFile(file, []byte("package vm\n"), 0o600))
	start := func(user string) (m *testserver.Process, health, metrics string) {
		health, metrics = w.address(), w.address()
		m = w.manager(w.admin(user), "--leader-election", "--templates", dir, "--health-probe-bind-address", health, "--metrics-bind-address", metrics)
		w.eventually(func() string { return lacks(get(health, "/readyz"), "ok") })
		return m, health, metrics
	}
	first, _, _ := start("working")
	// The second one finds no files that were kept, and takes those of the directory.
	forget := func() {
		w.untilConfigMap(controller.KeptTemplates)
		w.must(w.client.Resource(resource("", "configmaps")).Namespace(w.namespace).Delete(t.Context(), controller.KeptTemplates, metav1.DeleteOptions{}))
	}
	forget()
	mark := w.now()
	second, health, metrics := start("waiting")
	w.eventually(func() string { return lacks(get(metrics, templatesPage), "for VirtualMachine") })
	w.vm("web")
	w.untilConfigMap("web")
	// Both see the edit; the one that works takes it.
	w.must(os.WriteFile(file, []byte("package vm\n\nobjects: extra: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: _metadata & {name: \"extra\"}}\n"), 0o600))
	w.untilConfigMap("extra")
	written, err := server.Since(mark, func(r testserver.Request) bool { return r.User == "waiting" && r.IsWrite() && !r.IsLease() })
	w.must(err)
	for _, r := range written {
		t.Errorf("the manager that waits has written: %s", r)
	}
	if problem := lacks(get(health, "/readyz"), "ok"); problem != "" {
		t.Error(problem)
	}

	forget()
	first.Kill()
	w.vm("other")
	w.untilConfigMap("other")
	w.untilConfigMap(controller.KeptTemplates)
	alive(t, second)
}
