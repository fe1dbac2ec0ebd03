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

// parts are what the chart has beside the base, with the condition that each is made by.
var parts = map[string]string{
	"components/alerts":               ".Values.alerts.enabled",
	"components/cluster-wide":         ".Values.clusterWide",
	"components/grafana-dashboard":    ".Values.grafanaDashboard.enabled",
	"components/machine":              "and .Values.machines.enabled .Values.rbac.create",
	"components/machine-cluster-wide": "and .Values.machines.enabled .Values.clusterWide .Values.rbac.create",
	"components/network-policy":       ".Values.networkPolicy.enabled",
	"components/service-monitor":      ".Values.serviceMonitor.enabled",
	"confine-runner":                  ".Values.confineRunner.enabled",
}

// conditions are those that an object of the base is made by; the others are always made.
var conditions = map[string]string{
	"PersistentVolumeClaim vmop-image-repository": ".Values.imageRepository.create",
	"PodDisruptionBudget vm-operator":             ".Values.podDisruptionBudget.enabled",
	"Role vm-operator":                            ".Values.rbac.create",
	"Role vm-runner":                              ".Values.rbac.create",
	"RoleBinding vm-operator":                     ".Values.rbac.create",
	"RoleBinding vm-runner":                       ".Values.rbac.create",
	"ServiceAccount vm-operator":                  ".Values.serviceAccount.create",
}

// shared are the objects of the cluster that several releases need: the first one makes them, and they stay when it is uninstalled.
var shared = []string{
	"ValidatingAdmissionPolicy cuvee-confine-runner",
	"ValidatingAdmissionPolicyBinding cuvee-confine-runner",
}

// keep has what Helm uninstalls stay.
var keep = change{at: "metadata.annotations", add: true, lines: "annotations:\n  helm.sh/resource-policy: keep"}

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
	"RoleBinding vm-operator":                              {{at: "subjects.0.name", text: account}},
	"ClusterRoleBinding vm-operator":                       {{at: "subjects.0.name", text: account}},
	"RoleBinding vm-operator-machines":                     {{at: "subjects.0.name", text: account}},
	"ClusterRoleBinding vm-operator-machines":              {{at: "subjects.0.name", text: account}},
	"ClusterRoleBinding vm-operator-machines-cluster-wide": {{at: "subjects.0.name", text: account}},
	"ConfigMap vm-operator": {{at: "data", lines: `data:
  config.yaml: |
    {{- toYaml .Values.config | nindent 4 }}
  {{- range $name, $text := .Values.site }}
  {{ toJson $name }}: {{ toJson $text }}
  {{- end }}`}},
	"PersistentVolumeClaim vmop-image-repository": {
		// A release that is uninstalled leaves the images.
		keep,
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
	for part, condition := range parts {
		objects, err := build(kustomize, part)
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
	for _, id := range slices.Concat(slices.Collect(maps.Keys(changes)), slices.Collect(maps.Keys(conditions)), shared) {
		if _, ok := files[file(id)]; !ok {
			return fmt.Errorf("there is no %s any more", id)
		}
	}
	return nil
}

func addTemplate(files map[string]string, o *unstructured.Unstructured, condition string) error {
	name := id(o)
	o.SetNamespace("")
	all := append([]change{{at: "metadata.labels.more", add: true, lines: `{{- include "cuvee.labels" . | nindent INDENT }}`}}, changes[name]...)
	if slices.Contains(shared, name) {
		all = append(all, keep)
		condition = fmt.Sprintf("and %s (include \"cuvee.ofRelease\" (list . %q %q %q))", condition, o.GetAPIVersion(), o.GetKind(), o.GetName())
	}
	text, err := template(o, all)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if condition != "" {
		text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
	}
	files[file(name)] = generated + strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
	return nil
}

func id(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

func file(id string) string {
	return "templates/" + strings.ToLower(strings.ReplaceAll(id, " ", "-")) + ".yaml"
}

// build returns the objects of the base, with a part if one is named.
func build(kustomize, part string) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	source := os.DirFS(kustomize)
	for _, dir := range []string{"base", "runner", "components", "confine-runner"} {
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
	switch {
	case strings.HasPrefix(part, "components/"):
		site += "components: [../" + part + "]\n"
	case part != "":
		site = strings.Replace(site, "../base", "../base, ../"+part, 1)
	}
	if err := files.WriteFile("/site/kustomization.yaml", []byte(site)); err != nil {
		return nil, err
	}
	return kustomization.BuildIn(files, "/site")
}
