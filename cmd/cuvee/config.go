package main

import (
	"encoding/json"
	"errors"
	"fmt"

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
