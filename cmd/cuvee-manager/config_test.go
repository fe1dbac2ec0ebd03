package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mount writes files the way kubelet does for a ConfigMap: all of them are swapped at once.
func mount(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	data := filepath.Join(dir, ".."+version)
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// The first time only.
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name))
	}
	link := filepath.Join(dir, "..next")
	if err := os.Symlink(".."+version, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

func reconciler(text string) string {
	return "\"/Manager\":\n  \"/Controller\":\n    \"/Reconciler\":\n" + text
}

// annotation is that of the Service of the VirtualMachine web.
func (w *world) annotation(name string) string {
	w.Helper()
	service, err := w.client.Resource(resource("", "services")).Namespace(w.namespace).Get(w.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return service.GetAnnotations()[name]
}

// TestConfiguration has a manager with a configuration of VM-Operator's form, which is then changed: into another good one, a bad one, one
// that contradicts the site's CUE, and none.
func TestConfiguration(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	configured := func(version, config string, more map[string]string) {
		files := map[string]string{}
		if config != "" {
			files["config.yaml"] = config
		}
		for name, text := range more {
			files[name] = text
		}
		mount(t, dir, version, files)
	}
	const storage = "      runnerDataPvc: {storageClassName: fast}\n"
	service := func(value string) string {
		return reconciler(storage + "      loadBalancerService: {annotations: {pool: " + value + "}}\n")
	}
	configured("v1", "\"/Manager\":\n  \"/GuiHttpServer\": {users: [{name: admin, password: hunter2}]}\n"+strings.TrimPrefix(service("one"), "\"/Manager\":\n"), nil)
	address := w.address()
	m := w.manager(w.admin("configured"), "-c", filepath.Join(dir, "config.yaml"), "--templates", dir, "--metrics-bind-address", address)
	w.vm("web")
	w.eventually(func() string { return lacks(w.annotation("pool"), "one") })
	claims, err := w.client.Resource(resource("", "persistentvolumeclaims")).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
	w.must(err)
	for _, c := range claims.Items {
		if class, _, _ := unstructured.NestedString(c.Object, "spec", "storageClassName"); class != "fast" {
			t.Errorf("%s has the storage class %q", c.GetName(), class)
		}
	}
	if len(claims.Items) == 0 {
		t.Error("there is no claim")
	}
	if problem := lacks(m.Log(), `"keys":["/Manager/GuiHttpServer"]`); problem != "" {
		t.Error(problem)
	}
	if n := strings.Count(m.Log(), "have no effect here"); n != 1 {
		t.Errorf("it says %d times which keys have no effect, want once", n)
	}
	if strings.Contains(m.Log(), "hunter2") {
		t.Error("a password is in the log")
	}

	configured("v2", service("two"), nil)
	w.eventually(func() string { return lacks(w.annotation("pool"), "two") })

	configured("v3", reconciler("      runnerData: {storageClassName: fast}\n"), nil)
	w.eventually(func() string {
		return lacks(get(address, templatesPage), "file       config.yaml\nline       4\nreason     /Manager/Controller/Reconciler.runnerData: unknown key, did you mean runnerDataPvc?\n")
	})
	configured("v4", reconciler(storage+"      cpuOvercommit: 0.5\n"), nil)
	w.eventually(func() string { return lacks(get(address, templatesPage), "file       config.yaml\nline       5\n") })
	configured("v5", reconciler(storage), map[string]string{"lab.cue": "package vm\n\nsettings: runnerDataPvc: storageClassName: \"slow\"\n"})
	w.eventually(func() string { return lacks(get(address, templatesPage), "conflicting values") })
	if problem := lacks(get(address, templatesPage), "config.yaml"); problem != "" {
		t.Error(problem)
	}
	w.must(os.Remove(filepath.Join(dir, "config.yaml")))
	w.eventually(func() string { return lacks(get(address, templatesPage), "config.yaml is not there any more") })
	if got := w.annotation("pool"); got != "two" {
		t.Errorf("bad configurations have changed the Service: %s", got)
	}
}

// TestConfigurationAlone has a manager with a configuration, and no directory of templates. Its log has the level that the file beside
// it says, as that changes, and its lines the names that are documented.
func TestConfigurationAlone(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	config, levels := filepath.Join(dir, "config.yaml"), filepath.Join(dir, levelFileName)
	w.must(os.WriteFile(config, []byte(reconciler("      loadBalancerService: true\n")), 0o600))
	m := w.manager(w.admin("alone"), "--config", config)
	w.vm("web")
	w.eventually(func() string { return w.has("", "services", "web") })
	// The last line of a pass says what it has done.
	w.eventually(func() string {
		return lacks(m.Log(), `"message":"reconciled","controller":"VirtualMachine","namespace":"`+w.namespace+`","name":"web","state":"Stopped","did":["Created `)
	})
	w.eventually(func() string { return lacks(m.Log(), `Service `+w.namespace+`/web`) })
	if strings.Contains(m.Log(), `"level":"debug"`) {
		t.Error("there are lines of the level debug")
	}
	w.must(os.WriteFile(levels, []byte("handlers=java.util.logging.ConsoleHandler\n.level=WARNING\norg.jdrupes.vmoperator.manager.level=FINE\n"), 0o600))
	w.eventually(func() string { return lacks(m.Log(), `"message":"the level of the log has changed","level":"debug"`) })
	for line := range strings.Lines(m.Log()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("this line is no JSON: %s", line)
			continue
		}
		for _, key := range []string{"timestamp", "level", "message"} {
			if entry[key] == nil {
				t.Errorf("a line has no %s: %s", key, line)
			}
		}
	}
}
