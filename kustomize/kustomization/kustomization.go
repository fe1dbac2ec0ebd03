// Package kustomization makes the manifests of a directory with a kustomization.yaml, as kubectl apply -k does, for tests and for
// what is generated from them.
package kustomization

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Build returns the objects that a kustomization makes, in the order in which they are applied.
func Build(dir string) ([]*unstructured.Unstructured, error) {
	return BuildIn(filesys.MakeFsOnDisk(), dir)
}

// BuildIn is Build in a file system, which may be one in memory.
func BuildIn(files filesys.FileSystem, dir string) ([]*unstructured.Unstructured, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	resources, err := krusty.MakeKustomizer(options).Run(files, dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	var out []*unstructured.Unstructured
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("build %s: write %s: %w", dir, r.CurId(), err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			return nil, fmt.Errorf("build %s: read %s: %w", dir, r.CurId(), err)
		}
		out = append(out, u)
	}
	return out, nil
}
