package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/render"
)

// projection is the content of ConfigMaps and Secrets by their names, as a kubelet would find it.
type projection struct {
	configMaps, secrets map[string]map[string][]byte
}

// newProjection collects the rendered objects and those that the user gave.
func newProjection(r *render.Result, others []render.Document) (*projection, error) {
	p := &projection{configMaps: map[string]map[string][]byte{}, secrets: map[string]map[string][]byte{}}
	for _, o := range r.Objects {
		if err := p.add(o.JSON); err != nil {
			return nil, fmt.Errorf("read %s: %w", o.Key, err)
		}
	}
	// What the user gives is what a cluster would have already.
	for _, d := range others {
		data, err := json.Marshal(d.Object)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", d.File, err)
		}
		if err := p.add(data); err != nil {
			return nil, fmt.Errorf("read %s: %w", d.File, err)
		}
	}
	return p, nil
}

func (p *projection) add(data []byte) error {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &meta); err != nil {
		return err
	}
	switch meta.Kind {
	case "ConfigMap":
		var cm corev1.ConfigMap
		if err := json.Unmarshal(data, &cm); err != nil {
			return err
		}
		files := cm.BinaryData
		if files == nil {
			files = map[string][]byte{}
		}
		for k, v := range cm.Data {
			files[k] = []byte(v)
		}
		p.configMaps[cm.Name] = files
	case "Secret":
		var secret corev1.Secret
		if err := json.Unmarshal(data, &secret); err != nil {
			return err
		}
		files := secret.Data
		if files == nil {
			files = map[string][]byte{}
		}
		for k, v := range secret.StringData {
			files[k] = []byte(v)
		}
		p.secrets[secret.Name] = files
	}
	return nil
}

// write makes the files of the pod's projected volume of this name, readable for their owner only.
func (p *projection) write(r *render.Result, volume, dir string) error {
	sources, err := projectedSources(r, volume)
	if err != nil {
		return err
	}
	for _, s := range sources {
		var files map[string][]byte
		var what string
		var items []corev1.KeyToPath
		var optional *bool
		switch {
		case s.ConfigMap != nil:
			files, what, items, optional = p.configMaps[s.ConfigMap.Name], "ConfigMap "+s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional
		case s.Secret != nil:
			files, what, items, optional = p.secrets[s.Secret.Name], "Secret "+s.Secret.Name, s.Secret.Items, s.Secret.Optional
		default:
			continue
		}
		if err := writeItems(dir, what, files, items, optional != nil && *optional); err != nil {
			return err
		}
	}
	return nil
}

func projectedSources(r *render.Result, volume string) ([]corev1.VolumeProjection, error) {
	for _, v := range podVolumes(r) {
		if v.Name == volume && v.Projected != nil {
			return v.Projected.Sources, nil
		}
	}
	return nil, fmt.Errorf("the templates make no StatefulSet with a projected volume %q", volume)
}

// podVolumes are those that the VM's pod would have.
func podVolumes(r *render.Result) []corev1.Volume {
	var volumes []corev1.Volume
	for _, o := range r.Objects {
		var sts appsv1.StatefulSet
		if err := json.Unmarshal(o.JSON, &sts); err == nil && sts.Kind == "StatefulSet" {
			volumes = append(volumes, sts.Spec.Template.Spec.Volumes...)
		}
	}
	return volumes
}

func writeItems(dir, what string, files map[string][]byte, items []corev1.KeyToPath, optional bool) error {
	if files == nil && !optional {
		return fmt.Errorf("%s is not there; give it with -f", what)
	}
	for _, i := range items {
		data, ok := files[i.Key]
		if !ok {
			if optional {
				continue
			}
			return fmt.Errorf("%s has no key %q", what, i.Key)
		}
		if !filepath.IsLocal(i.Path) {
			return fmt.Errorf("%s: path %q leaves the volume", what, i.Path)
		}
		path := filepath.Join(dir, i.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("write %s: %w", what, err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", what, err)
		}
	}
	return nil
}
