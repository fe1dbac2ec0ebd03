// Command chart makes the templates of the Helm chart from the kustomizations: what both install is written down once.
//
//	go run ./tools/chart -kustomize kustomize -o kustomize/helm
//
// Of the chart it writes the directories crds and dashboards, and those of the templates that say that they are generated.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// generated begins each template that is.
const generated = "{{- /* Generated from the kustomizations by \"make generate\". DO NOT EDIT. */ -}}\n"

func main() {
	kustomize := flag.String("kustomize", "kustomize", "directory with the kustomizations")
	out := flag.String("o", "kustomize/helm", "directory of the chart")
	flag.Parse()
	if err := run(*kustomize, *out); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(kustomize, out string) error {
	files := map[string]string{}
	if err := addTemplates(files, kustomize); err != nil {
		return err
	}
	for pattern, dir := range map[string]string{"crd/*_*.yaml": "crds", "components/grafana-dashboard/*.json": "dashboards"} {
		if err := addCopies(files, filepath.Join(kustomize, pattern), dir); err != nil {
			return err
		}
	}
	return write(files, out)
}

// addCopies adds the files of a pattern as they are.
func addCopies(files map[string]string, pattern, dir string) error {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("there is no %s (%w)", pattern, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		files[filepath.Join(dir, filepath.Base(name))] = string(text)
	}
	return nil
}

// write puts the files in the place of those that an earlier run has written.
func write(files map[string]string, out string) error {
	for _, pattern := range []string{"templates/*.yaml", "crds/*", "dashboards/*"} {
		old, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return err
		}
		for _, name := range old {
			if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(pattern, "templates/") && !strings.HasPrefix(string(text), generated) {
				continue
			}
			if err := os.Remove(name); err != nil {
				return fmt.Errorf("remove an old file: %w", err)
			}
		}
	}
	for name, text := range files {
		name = filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}
