package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/controller/testserver"
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
	m := w.manager(w.admin("process"), "--templates", dir, "--metrics-address", metrics, "--health-address", health)
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

// TestNamespaces has a manager for one namespace: it leaves others alone, also without the right to see them.
func TestNamespaces(t *testing.T) {
	other, w := newWorld(t, 1), newWorld(t, 1)
	other.vm("web")
	w.vm("web")
	w.manager(w.admin("namespaces"))
	configs := resource("", "configmaps")
	w.eventually(func() string {
		if _, err := w.client.Resource(configs).Namespace(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	requests, err := server.Since(w.mark, func(r testserver.Request) bool { return r.User == "namespaces" && r.Namespace == other.namespace })
	w.must(err)
	if len(requests) > 0 {
		t.Errorf("it asked about another namespace: %v", testserver.Count(requests))
	}
}

// TestNotReady has a manager that may not watch: it lives, but is not ready, and says why in its log.
func TestNotReady(t *testing.T) {
	w := newWorld(t, 1)
	config, err := server.User("blind")
	w.must(err)
	health := w.address()
	m := w.manager(config, "--health-address", health)
	w.eventually(func() string { return lacks(get(health, "/healthz"), "ok") })
	w.eventually(func() string { return lacks(m.Log(), "is forbidden") })
	if got := get(health, "/readyz"); strings.Contains(got, "ok") {
		t.Errorf("it is ready: %s", got)
	}
}

// TestStandby has two managers that share a Lease: both are ready, and one of them works.
func TestStandby(t *testing.T) {
	w := newWorld(t, 1)
	first, second := w.address(), w.address()
	w.manager(w.admin("standby"), "--leader-elect", "--health-address", first)
	w.eventually(func() string { return lacks(get(first, "/readyz"), "ok") })
	w.manager(w.admin("standby"), "--leader-elect", "--health-address", second)
	w.eventually(func() string { return lacks(get(second, "/readyz"), "ok") })
}

// Bad options end the manager with exit code 2 and one line.
func TestOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"UnknownFlag": {[]string{"--nope"}, `^cuvee-manager: unknown flag: --nope\n$`},
		"Argument":    {[]string{"x"}, `^cuvee-manager: unexpected argument "x"\n$`},
		"Workers":     {[]string{"--workers", "0"}, `^cuvee-manager: --workers is 0, want 1 to 64\n$`},
		"Resync":      {[]string{"--resync", "-1s"}, `^cuvee-manager: --resync is -1s, want 0 or more\n$`},
		"LogLevel":    {[]string{"--log-level", "loud"}, `^cuvee-manager: --log-level is "loud", want debug, info, warn or error\n$`},
		"Namespace":   {[]string{"--namespace", "a/b"}, `^cuvee-manager: --namespace is "a/b", want the name of a namespace\n$`},
		"NoNamespace": {[]string{"--namespace", ""}, `^cuvee-manager: --namespace is "", want the name of a namespace\n$`},
		"Own":         {[]string{"--own-namespace", "A"}, `^cuvee-manager: --own-namespace is "A", want the name of a namespace\n$`},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := testserver.StartProcess([]string{asManager + "=1"}, self, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			<-p.Done()
			if got := p.Log(); !regexp.MustCompile(tc.want).MatchString(got) {
				t.Errorf("it says %q, want %s", got, tc.want)
			}
			if code := p.ExitCode(); code != exitUsage {
				t.Errorf("the exit code is %d, want %d", code, exitUsage)
			}
		})
	}
}
