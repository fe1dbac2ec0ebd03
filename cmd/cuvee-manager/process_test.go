package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// vm is a VirtualMachine without anything but a name.
func (w *world) vm(name string) {
	w.Helper()
	o := object("vmoperator.jdrupes.org/v1", "VirtualMachine", name)
	o.Object["spec"] = map[string]any{"vm": map[string]any{"maximumRam": "1Gi", "networks": []any{}, "disks": []any{}}}
	_, err := w.machines().Create(w.Context(), o, metav1.CreateOptions{})
	w.must(err)
}

// TestProcess follows a manager from its start to its end.
func TestProcess(t *testing.T) {
	w := newWorld(t, 1)
	metrics, health := w.address(), w.address()
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "lab.cue"), []byte("package vm\n\nmetrics: shares: 7\n"), 0o600))
	m := w.manager(w.admin("process"), "--templates", dir, "--metrics-bind-address", metrics, "--health-probe-bind-address", health)
	w.eventually(func() string { return lacks(get(health, "/readyz"), "ok") })
	w.vm("web")
	w.eventually(func() string {
		return lacks(get(metrics, "/metrics"), `cuvee_writes_total{kind="StatefulSet",package="vm",result="OK",verb="apply"} 1`)
	})
	page := get(metrics, "/metrics")
	for _, want := range []string{`cuvee_renders_total{package="vm"}`, `cuvee_vm_shares{name="web",namespace="` + w.namespace + `"} 7`} {
		if problem := lacks(page, want); problem != "" {
			t.Error(problem[:min(2000, len(problem))])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		t.Errorf("after SIGTERM: %v, want exit code 0", err)
	}
}

// TestNotReady has a manager that may not watch: it lives, but is not ready, and says why in its log.
func TestNotReady(t *testing.T) {
	w := newWorld(t, 1)
	config, err := server.User("blind")
	w.must(err)
	health := w.address()
	m := w.manager(config, "--health-probe-bind-address", health)
	w.eventually(func() string { return lacks(get(health, "/healthz"), "ok") })
	w.eventually(func() string { return lacks(m.Log(), "is forbidden") })
	if got := get(health, "/readyz"); strings.Contains(got, "ok") {
		t.Errorf("it is ready: %s", got)
	}
}
