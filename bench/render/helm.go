package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/render/crd"
)

// helmChart makes the same objects as Cuvee's templates. It is loaded once, as the templates are.
type helmChart struct {
	chart *chart.Chart
}

// loadChart loads the chart. Its values.schema.json is made from the contract that Cuvee checks the VM against, too.
func loadChart(root string) (*helmChart, error) {
	c, err := loader.LoadDir(filepath.Join(root, "bench/chart"))
	if err != nil {
		return nil, err
	}
	c.Schema, err = valuesSchema(root)
	return &helmChart{c}, err
}

func valuesSchema(root string) ([]byte, error) {
	kinds, err := crd.Load(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k.Kind.Kind != "VirtualMachine" {
			continue
		}
		schema, err := k.Schema()
		if err != nil {
			return nil, err
		}
		return json.Marshal(schema)
	}
	return nil, fmt.Errorf("no schema of VirtualMachine")
}

// objects makes the VM's objects the way "helm template" does with a loaded chart: the values are laid over the chart's,
// validated, the templates executed, and the text parsed into objects.
//
// Helm compiles the schema anew each time, which is a good part of the validation's cost; the figure that counts is that
// without validation.
func (c *helmChart) objects(vm map[string]any, validate bool) ([]map[string]any, error) {
	release := chartutil.ReleaseOptions{Name: "bench", Namespace: "bench", IsInstall: true}
	// Helm adds the chart's values to the map that it is given.
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c.chart, maps.Clone(vm), release, nil, !validate)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c.chart, values)
	if err != nil {
		return nil, err
	}
	var objects []map[string]any
	for name, text := range files {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		for _, manifest := range releaseutil.SplitManifests(text) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
				return nil, fmt.Errorf("parse %s: %w\n%s", name, err, manifest)
			}
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

func (c *helmChart) render(vm map[string]any, validate bool) error {
	_, err := c.objects(vm, validate)
	return err
}
