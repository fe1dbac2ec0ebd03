package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/cuvee-vm/cuvee/kustomize/kustomization"
)

// components are the components that the chart has, with the value that turns each on.
var components = map[string]string{
	"alerts":            "alerts.enabled",
	"cluster-wide":      "clusterWide",
	"grafana-dashboard": "grafanaDashboard.enabled",
	"network-policy":    "networkPolicy.enabled",
	"service-monitor":   "serviceMonitor.enabled",
}

// conditions are values that an object of the base is made by; the others are always made.
var conditions = map[string]string{
	"PersistentVolumeClaim vmop-image-repository": "imageRepository.create",
	"PodDisruptionBudget vm-operator":             "podDisruptionBudget.enabled",
	"Role vm-operator":                            "rbac.create",
	"Role vm-runner":                              "rbac.create",
	"RoleBinding vm-operator":                     "rbac.create",
	"RoleBinding vm-runner":                       "rbac.create",
	"ServiceAccount vm-operator":                  "serviceAccount.create",
}

const (
	// namespace stands for that of the release.
	namespace = "namespace-of-the-release"
	manager   = "spec.template.spec.containers.0"
	account   = `{{ .Values.serviceAccount.name | quote }}`
)

// changes say what of an object is a value, by the path of the field. There has to be such a field but for those that are added.
var changes = map[string][]change{
	"Deployment vm-operator": {
		{at: "spec.replicas", text: `{{ .Values.replicaCount }}`},
		{at: "spec.template.metadata.annotations", add: true, with: ".Values.podAnnotations"},
		{at: "spec.template.spec.serviceAccountName", text: account},
		{at: "spec.template.spec.imagePullSecrets", add: true, with: ".Values.imagePullSecrets"},
		{at: "spec.template.spec.priorityClassName", add: true, with: ".Values.priorityClassName", scalar: true},
		{at: "spec.template.spec.nodeSelector.more", add: true, lines: `{{- with .Values.nodeSelector }}
{{- toYaml . | nindent INDENT }}
{{- end }}`},
		{at: "spec.template.spec.tolerations", add: true, with: ".Values.tolerations"},
		{at: "spec.template.spec.affinity", add: true, with: ".Values.affinity"},
		{at: manager + ".image", text: `"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"`},
		{at: manager + ".imagePullPolicy", add: true, text: `{{ .Values.image.pullPolicy }}`},
		// The variables after the first one, which is the namespace.
		{at: manager + ".env.1", lines: `{{- if .Values.clusterWide }}
- name: WATCH_NAMESPACES
  value: "*"
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}`},
		{at: manager + ".resources", with: ".Values.resources"},
	},
	"ServiceAccount vm-operator": {
		{at: "metadata.name", text: account},
		{at: "metadata.annotations", add: true, with: ".Values.serviceAccount.annotations"},
	},
	"RoleBinding vm-operator":        {{at: "subjects.0.name", text: account}},
	"ClusterRoleBinding vm-operator": {{at: "subjects.0.name", text: account}},
	"ConfigMap vm-operator": {{at: "data", lines: `data:
  config.yaml: |
    {{- toYaml .Values.config | nindent 4 }}
  {{- range $name, $text := .Values.site }}
  {{ toJson $name }}: {{ toJson $text }}
  {{- end }}`}},
	"PersistentVolumeClaim vmop-image-repository": {
		// A release that is uninstalled leaves the images.
		{at: "metadata.annotations", add: true, lines: "annotations:\n  helm.sh/resource-policy: keep"},
		{at: "spec.accessModes", with: ".Values.imageRepository.accessModes"},
		{at: "spec.storageClassName", add: true, with: ".Values.imageRepository.storageClassName", scalar: true},
		{at: "spec.resources.requests.storage", text: `{{ .Values.imageRepository.size | quote }}`},
	},
	"ConfigMap cuvee-dashboards": {{at: "data", lines: "data:\n  {{- (.Files.Glob \"dashboards/*.json\").AsConfig | nindent 2 }}"}},
}

// addTemplates adds a template for each object of the base and of the components.
func addTemplates(files map[string]string, kustomize string) error {
	base, err := build(kustomize, "")
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, o := range base {
		known[id(o)] = true
		if err := addTemplate(files, o, conditions[id(o)]); err != nil {
			return err
		}
	}
	for component, condition := range components {
		objects, err := build(kustomize, component)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if known[id(o)] {
				continue
			}
			if err := addTemplate(files, o, condition); err != nil {
				return err
			}
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(changes)), slices.Collect(maps.Keys(conditions))) {
		if _, ok := files[file(id)]; !ok {
			return fmt.Errorf("there is no %s any more", id)
		}
	}
	return nil
}

func addTemplate(files map[string]string, o *unstructured.Unstructured, condition string) error {
	name := id(o)
	o.SetNamespace("")
	text, err := template(o, append([]change{{at: "metadata.labels.more", add: true, lines: `{{- include "cuvee.labels" . | nindent INDENT }}`}}, changes[name]...))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if condition != "" {
		text = "{{- if .Values." + condition + " }}\n" + text + "{{- end }}\n"
	}
	files[file(name)] = generated + strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
	return nil
}

func id(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

func file(id string) string {
	return "templates/" + strings.ToLower(strings.ReplaceAll(id, " ", "-")) + ".yaml"
}

// build returns the objects of the base, with a component if one is named.
func build(kustomize, component string) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	source := os.DirFS(kustomize)
	for _, dir := range []string{"base", "runner", "components"} {
		if err := fs.WalkDir(source, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(source, path)
			if err != nil {
				return err
			}
			return files.WriteFile("/"+path, text)
		}); err != nil {
			return nil, fmt.Errorf("read %s: %w", kustomize, err)
		}
	}
	site := "kind: Kustomization\nnamespace: " + namespace + "\nresources: [../base]\n"
	if component != "" {
		site += "components: [../components/" + component + "]\n"
	}
	if err := files.WriteFile("/site/kustomization.yaml", []byte(site)); err != nil {
		return nil, err
	}
	return kustomization.BuildIn(files, "/site")
}
