package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// configFile is the name of the runner's config in the ConfigMap.
const configFile = "config.json"

// runnerConfig reads the runner's config from the rendered ConfigMap.
func runnerConfig(r *render.Result) (*runner.Config, error) {
	for _, o := range r.Objects {
		var cm corev1.ConfigMap
		if err := json.Unmarshal(o.JSON, &cm); err != nil {
			return nil, fmt.Errorf("read %s: %w", o.Key, err)
		}
		if text, ok := cm.Data[configFile]; ok && cm.Kind == "ConfigMap" {
			return runner.ParseConfig([]byte(text))
		}
	}
	return nil, errors.New("the templates make no ConfigMap with a " + configFile)
}

// config renders a VM for this machine, with notices to w, and makes the files that a kubelet would have made.
func (h *host) config(w io.Writer, set *render.Set, doc render.Document, others []render.Document) (*runner.Config, error) {
	result, err := set.RenderObserving(render.Input{Document: doc, Values: h.values()}, others)
	if err != nil {
		return nil, err
	}
	writeNotices(w, rendered{doc: doc, result: result})
	cfg, err := runnerConfig(result)
	if err != nil {
		return nil, err
	}
	if err := h.checkDisks(cfg); err != nil {
		return nil, err
	}
	if err := makeVolumes(cfg); err != nil {
		return nil, err
	}
	if err := h.fetchImages(w, result, cfg); err != nil {
		return nil, err
	}
	p, err := newProjection(result, others)
	if err != nil {
		return nil, err
	}
	if err := p.write(result, "config", filepath.Join(h.runtimeDir, "config")); err != nil {
		return nil, err
	}
	return cfg, nil
}
