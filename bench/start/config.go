package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// vm is what is started.
type vm struct {
	config *runner.Config
	// What the runner starts QEMU with, for the QEMU without it.
	program string
	argv    []string
	// image is the cloud-init disk, which goes with the runner.
	image []byte
}

// prepare renders the VM as for "cuvee run", and starts it once: what stays from that is there for every further start.
func prepare(ctx context.Context, o options, name, dir string) (*vm, error) {
	set, err := render.Load(render.Source{Module: os.DirFS(o.root), Package: "templates/vm/local"})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.root, "bench/testdata", name)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	docs, err := render.Decode(file, data)
	if err != nil {
		return nil, err
	}
	r, err := set.Render(render.Input{Document: docs[0], Values: map[string]any{
		"host": map[string]any{
			"dataDir":     filepath.Join(dir, "data"),
			"runtimeDir":  filepath.Join(dir, "runtime"),
			"imageDir":    dir,
			"accelerator": o.accelerator,
		},
		// Where KVM runs in a VM itself, QEMU ends at this feature of the host's CPU if the outer host does not let it through. Memory
		// and time do not depend on it.
		"settings": map[string]any{"qemu": map[string]any{"cpuFeatures": map[string]any{"arch-capabilities": "off"}}},
	}})
	if err != nil {
		return nil, err
	}
	v := &vm{}
	if v.config, err = project(r, filepath.Join(dir, "runtime/config")); err != nil {
		return nil, err
	}
	// The disks' directories are volumes in a cluster, so the runner does not make them.
	for _, i := range v.config.Boot.Images {
		if err := os.MkdirAll(filepath.Dir(i.Path), 0o700); err != nil {
			return nil, err
		}
	}
	return v, v.firstStart(ctx)
}

// project writes the cloud-init data to where the runner looks for it, and returns the runner's config.
func project(r *render.Result, dir string) (*runner.Config, error) {
	var config *runner.Config
	for _, o := range r.Objects {
		var m struct {
			Kind string
			Data map[string]json.RawMessage
		}
		if err := json.Unmarshal(o.JSON, &m); err != nil {
			return nil, err
		}
		if text, ok := m.Data["config.json"]; ok {
			var document string
			if err := json.Unmarshal(text, &document); err != nil {
				return nil, err
			}
			var err error
			if config, err = runner.ParseConfig([]byte(document)); err != nil {
				return nil, err
			}
		}
		if o.Key != "cloudInit" {
			continue
		}
		for name, content := range m.Data {
			// A Secret's data is base64, which is what JSON makes of bytes.
			var file []byte
			if err := json.Unmarshal(content, &file); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if err := write(filepath.Join(dir, "cloud-init", name), file); err != nil {
				return nil, err
			}
		}
	}
	if config == nil {
		return nil, errors.New("the templates make no config.json")
	}
	return config, nil
}
