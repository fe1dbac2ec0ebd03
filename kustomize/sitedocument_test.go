package kustomize_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// siteFromNothing is the worked example of docs/sites.md: its commands, a text for each block, and its lines of a kustomization.yaml.
func siteFromNothing(t *testing.T) (commands []string, lines string) {
	t.Helper()
	page, err := os.ReadFile("../docs/sites.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## A site from nothing\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	// It is a list, so that all of an item is indented.
	section = regexp.MustCompile("(?m)^   ").ReplaceAllString(section, "")
	for _, m := range regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```").FindAllStringSubmatch(section, -1) {
		if m[1] == "sh" {
			commands = append(commands, m[2])
			continue
		}
		lines += m[2]
	}
	if len(commands) != 2 || lines == "" {
		t.Fatalf("docs/sites.md has the blocks %q, and %q", commands, lines)
	}
	return commands, lines
}

// TestSiteDocument follows the worked example of docs/sites.md on the API server, from an empty directory to a VM that is what the site says.
func TestSiteDocument(t *testing.T) {
	c := admin(t)
	s := newShell(c)
	const ns = "site-from-nothing"
	dir := t.TempDir()
	checkout, site := filepath.Join(dir, "cuvee"), filepath.Join(dir, "site")
	for _, name := range []string{"kustomize", "examples"} {
		c.must(os.CopyFS(filepath.Join(checkout, name), os.DirFS(filepath.Join("..", name))))
	}
	c.must(os.Mkdir(site, 0o755))
	commands, lines := siteFromNothing(t)
	for _, block := range commands {
		s.run(site, "set -e\n"+block)
	}
	c.must(os.WriteFile(filepath.Join(site, "kustomization.yaml"), []byte("namespace: "+ns+"\nresources: [../cuvee/kustomize/base]\n"+lines), 0o600))
	c.namespace(ns)
	s.run(site, "kubectl apply -k .")
	c.ready(c.start(ns))
	s.run(site, "kubectl -n "+ns+" apply -f vm.yaml")
	c.rendered(ns, "hello")
	plain := spec()
	delete(plain["vm"].(map[string]any), "maximumRam")
	c.vm(ns, "plain", plain)
	c.rendered(ns, "plain")

	for _, claim := range []string{"system-disk-hello-0", "runner-data-hello-0"} {
		if got := at(c.get("v1", "PersistentVolumeClaim", ns, claim), "spec", "storageClassName"); got != "fast" {
			t.Errorf("the class of %s is %v, want fast", claim, got)
		}
	}
	for _, o := range []struct{ apiVersion, kind, name string }{
		{"apps/v1", "StatefulSet", "hello"}, {"v1", "ConfigMap", "hello"}, {"v1", "Secret", "hello-cloud-init"}, {"v1", "PersistentVolumeClaim", "system-disk-hello-0"},
	} {
		if got := c.get(o.apiVersion, o.kind, ns, o.name).GetLabels()["example.com/site"]; got != "lab" {
			t.Errorf("the label of %s %s is %q, want lab", o.kind, o.name, got)
		}
	}
	config, _ := at(c.get("v1", "ConfigMap", ns, "plain"), "data", "config.json").(string)
	if !strings.Contains(config, `"spec.vm.maximumRam": "512Mi"`) {
		t.Errorf("the memory of plain is not the site's default: %s", config)
	}
}
