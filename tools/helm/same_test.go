package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/kustomize/kustomization"
)

// ofHelm are the labels that only the chart has.
var ofHelm = []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"}

// kustomized are the objects of the base and of confine-runner with components, as a site has them that says which version of the image it wants.
func kustomized(t *testing.T, components ...string) map[string]any {
	t.Helper()
	root, err := filepath.Abs("../../kustomize")
	if err != nil {
		t.Fatal(err)
	}
	// kustomize takes no bases by their absolute paths.
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "kustomize"), os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	site := "kind: Kustomization\nnamespace: vms\nresources: [../kustomize/base, ../kustomize/confine-runner]\nimages: [{name: cuvee-manager, newTag: 1.2.3}]\ncomponents:\n"
	for _, c := range components {
		site += "- ../kustomize/components/" + c + "\n"
	}
	if err := os.Mkdir(filepath.Join(dir, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "site/kustomization.yaml"), []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := kustomization.Build(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, o := range list {
		out[id(o)] = plain(t, o)
	}
	return out
}

// plain is an object without what only Helm or only kustomize writes, and what is the default of Kubernetes.
func plain(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace("")
	labels := o.GetLabels()
	for _, l := range ofHelm {
		delete(labels, l)
	}
	if o.SetLabels(labels); len(labels) == 0 {
		o.SetLabels(nil)
	}
	annotations := o.GetAnnotations()
	delete(annotations, "helm.sh/resource-policy")
	if o.SetAnnotations(annotations); len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
	if c, ok := at(o.Object, "spec.template.spec.containers.0").(map[string]any); ok && o.GetKind() == "Deployment" {
		// The default of an image with a tag.
		if c["imagePullPolicy"] == "IfNotPresent" {
			delete(c, "imagePullPolicy")
		}
		// The chart has variables by name.
		env, _ := c["env"].([]any)
		slices.SortFunc(env, func(a, b any) int { return strings.Compare(fmt.Sprint(at(a, "name")), fmt.Sprint(at(b, "name"))) })
	}
	// The configuration is compared by what it says, not by how it is written.
	if data, ok := o.Object["data"].(map[string]any); ok && data["config.yaml"] != nil {
		var config any
		if err := yaml.Unmarshal([]byte(data["config.yaml"].(string)), &config); err != nil {
			t.Fatal(err)
		}
		data["config.yaml"] = config
	}
	return o.Object
}

// With its defaults the chart installs what kustomize/base and kustomize/confine-runner do, and with a component turned on, what that adds.
func TestSameAsKustomize(t *testing.T) {
	cases := map[string]struct{ components, values string }{
		"Defaults":            {"", ""},
		"Alerts":              {"alerts", "alerts: {enabled: true}"},
		"ClusterWide":         {"cluster-wide", "clusterWide: true"},
		"GrafanaDashboard":    {"grafana-dashboard", "grafanaDashboard: {enabled: true}"},
		"Machines":            {"machine", "machines: {enabled: true}"},
		"MachinesClusterWide": {"cluster-wide,machine,machine-cluster-wide", "machines: {enabled: true}\nclusterWide: true"},
		"NetworkPolicy":       {"network-policy", "networkPolicy: {enabled: true}"},
		"ServiceMonitor":      {"service-monitor", "serviceMonitor: {enabled: true}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var components []string
			if tc.components != "" {
				components = strings.Split(tc.components, ",")
			}
			got := map[string]any{}
			for id, o := range objects(t, "image: {tag: 1.2.3}\n"+tc.values) {
				got[id] = plain(t, o)
			}
			want := kustomized(t, components...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-kustomize +helm):\n%s", diff)
			}
		})
	}
}
