package helm

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// manager is the path of the manager's container.
const manager = "spec.template.spec.containers.0."

// at is what an object has at a path; a number in it is an item of a list.
func at(o any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch in := o.(type) {
		case map[string]any:
			o = in[strings.ReplaceAll(name, "%", ".")]
		case []any:
			i := strings.Index("0123456789", name)
			if i < 0 || i >= len(in) {
				return nil
			}
			o = in[i]
		default:
			return nil
		}
	}
	return o
}

// effects say what each value does: the object, the field and what it is then. An object of "" is not there.
var effects = map[string]struct {
	values string
	object string
	path   string
	want   any
}{
	"replicaCount":                     {"replicaCount: 3", "Deployment vm-operator", "spec.replicas", int64(3)},
	"image.repository":                 {"image: {repository: registry.example/manager, tag: '7'}", "Deployment vm-operator", manager + "image", "registry.example/manager:7"},
	"image.tag":                        {"image: {tag: '1.10'}", "Deployment vm-operator", manager + "image", "cuvee-manager:1.10"},
	"image.pullPolicy":                 {"image: {pullPolicy: Always}", "Deployment vm-operator", manager + "imagePullPolicy", "Always"},
	"imagePullSecrets":                 {"imagePullSecrets: [{name: registry}]", "Deployment vm-operator", "spec.template.spec.imagePullSecrets.0.name", "registry"},
	"resources.limits.cpu":             {"resources: {limits: {cpu: 2}}", "Deployment vm-operator", manager + "resources.limits.cpu", int64(2)},
	"resources.limits.memory":          {"resources: {limits: {memory: 2Gi}}", "Deployment vm-operator", manager + "resources.limits.memory", "2Gi"},
	"resources.requests.cpu":           {"resources: {requests: {cpu: 10m}}", "Deployment vm-operator", manager + "resources.requests.cpu", "10m"},
	"resources.requests.memory":        {"resources: {requests: {memory: 64Mi}}", "Deployment vm-operator", manager + "resources.requests.memory", "64Mi"},
	"env.GOMEMLIMIT":                   {"env: {GOMEMLIMIT: 1900MiB}", "Deployment vm-operator", manager + "env.1.value", "1900MiB"},
	"env (another)":                    {"env: {MAX_CONCURRENT_RECONCILES: 1000000}", "Deployment vm-operator", manager + "env.2.value", "1000000"},
	"nodeSelector":                     {"nodeSelector: {role: infra}", "Deployment vm-operator", "spec.template.spec.nodeSelector", map[string]any{"kubernetes.io/os": "linux", "role": "infra"}},
	"tolerations":                      {"tolerations: [{operator: Exists}]", "Deployment vm-operator", "spec.template.spec.tolerations.0.operator", "Exists"},
	"affinity":                         {"affinity: {podAntiAffinity: {x: here}}", "Deployment vm-operator", "spec.template.spec.affinity.podAntiAffinity.x", "here"},
	"priorityClassName":                {"priorityClassName: '1'", "Deployment vm-operator", "spec.template.spec.priorityClassName", "1"},
	"podAnnotations":                   {"podAnnotations: {note: 'yes'}", "Deployment vm-operator", "spec.template.metadata.annotations.note", "yes"},
	"podDisruptionBudget.enabled":      {"podDisruptionBudget: {enabled: false}", "PodDisruptionBudget vm-operator", "", nil},
	"serviceAccount.create":            {"serviceAccount: {create: false}", "ServiceAccount vm-operator", "", nil},
	"serviceAccount.name":              {"serviceAccount: {name: other}", "ServiceAccount other", "metadata.name", "other"},
	"serviceAccount.name (pod)":        {"serviceAccount: {name: other}", "Deployment vm-operator", "spec.template.spec.serviceAccountName", "other"},
	"serviceAccount.name (rights)":     {"serviceAccount: {name: other}", "RoleBinding vm-operator", "subjects.0.name", "other"},
	"serviceAccount.name (everywhere)": {"{serviceAccount: {name: other}, clusterWide: true}", "ClusterRoleBinding vm-operator", "subjects.0.name", "other"},
	"serviceAccount.annotations":       {"serviceAccount: {annotations: {role: 'a'}}", "ServiceAccount vm-operator", "metadata.annotations.role", "a"},
	"rbac.create":                      {"rbac: {create: false}", "Role vm-operator", "", nil},
	"rbac.create (runner)":             {"rbac: {create: false}", "RoleBinding vm-runner", "", nil},
	"clusterWide":                      {"clusterWide: true", "Deployment vm-operator", manager + "env.1", map[string]any{"name": "WATCH_NAMESPACES", "value": "*"}},
	"clusterWide (rights)":             {"clusterWide: true", "ClusterRoleBinding vm-operator", "subjects.0.namespace", "vms"},
	"machines.enabled":                 {"machines: {enabled: true}", "Role vm-operator-machines", "rules.0.apiGroups.0", "vitistack.io"},
	"machines.enabled (account)":       {"{machines: {enabled: true}, serviceAccount: {name: other}}", "RoleBinding vm-operator-machines", "subjects.0.name", "other"},
	"machines.enabled (everywhere)":    {"{machines: {enabled: true}, clusterWide: true}", "ClusterRoleBinding vm-operator-machines-cluster-wide", "subjects.0.namespace", "vms"},
	"confineRunner.enabled":            {"confineRunner: {enabled: false}", "ValidatingAdmissionPolicy cuvee-confine-runner", "", nil},
	"confineRunner.enabled (binding)":  {"confineRunner: {enabled: false}", "ValidatingAdmissionPolicyBinding cuvee-confine-runner", "", nil},
	"config":                           {"config: {/Manager: {/Controller: {namespace: vms}}}", "ConfigMap vm-operator", "data.config%yaml", "/Manager:\n  /Controller:\n    namespace: vms\n"},
	"site":                             {"site: {site.cue: \"\\tpackage vm\\n  # '{{ \\\"\\n\"}", "ConfigMap vm-operator", "data.site%cue", "\tpackage vm\n  # '{{ \"\n"},
	"imageRepository.create":           {"imageRepository: {create: false}", "PersistentVolumeClaim vmop-image-repository", "", nil},
	"imageRepository.accessModes":      {"imageRepository: {accessModes: [ReadWriteOnce]}", "PersistentVolumeClaim vmop-image-repository", "spec.accessModes", []any{"ReadWriteOnce"}},
	"imageRepository.storageClassName": {"imageRepository: {storageClassName: fast}", "PersistentVolumeClaim vmop-image-repository", "spec.storageClassName", "fast"},
	"imageRepository.size":             {"imageRepository: {size: 10Gi}", "PersistentVolumeClaim vmop-image-repository", "spec.resources.requests.storage", "10Gi"},
	"networkPolicy.enabled":            {"networkPolicy: {enabled: true}", "NetworkPolicy vm-runner", "kind", "NetworkPolicy"},
	"serviceMonitor.enabled":           {"serviceMonitor: {enabled: true}", "ServiceMonitor vm-operator", "kind", "ServiceMonitor"},
	"alerts.enabled":                   {"alerts: {enabled: true}", "PrometheusRule cuvee", "spec.groups.0.rules.1.annotations.summary", "No manager in {{ $labels.namespace }} is the leader."},
	"grafanaDashboard.enabled":         {"grafanaDashboard: {enabled: true}", "ConfigMap cuvee-dashboards", "metadata.labels.grafana_dashboard", "1"},
}

func TestValues(t *testing.T) {
	for name, e := range effects {
		t.Run(name, func(t *testing.T) {
			all := objects(t, e.values)
			o, ok := all[e.object]
			if e.path == "" {
				if _, before := objects(t, "")[e.object]; ok || !before {
					t.Errorf("that there is a %s is %v, without the value %v", e.object, ok, before)
				}
				return
			}
			if !ok {
				t.Fatalf("there is no %s", e.object)
			}
			if diff := cmp.Diff(e.want, at(o.Object, e.path)); diff != "" {
				t.Errorf("%s (-want +is):\n%s", e.path, diff)
			}
		})
	}
}

// leaves are the names of values that are no groups of others.
func leaves(prefix string, values map[string]any) []string {
	var out []string
	for name, v := range values {
		group, ok := v.(map[string]any)
		if ok && len(group) > 0 && name != "config" {
			out = append(out, leaves(prefix+name+".", group)...)
			continue
		}
		out = append(out, prefix+name)
	}
	slices.Sort(out)
	return out
}

// Every value has an effect that is tested, and is in the schema.
func TestEveryValue(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, name := range leaves("", values) {
		if _, ok := effects[name]; !ok {
			t.Errorf("no test says what %s does", name)
		}
	}
	if text, err = os.ReadFile(chart + "/values.schema.json"); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := yaml.UnmarshalStrict(text, &schema); err != nil {
		t.Fatal(err)
	}
	properties, _, _ := unstructured.NestedMap(schema, "properties")
	// Helm itself has "global".
	delete(properties, "global")
	var known, there []string
	for name := range properties {
		known = append(known, name)
	}
	for name := range values {
		there = append(there, name)
	}
	slices.Sort(known)
	slices.Sort(there)
	if diff := cmp.Diff(known, there); diff != "" {
		t.Errorf("values (-schema +values.yaml):\n%s", diff)
	}
}

// The table of the document has each value with its default.
func TestDocumentedValues(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile("../../docs/helm.md"); err != nil {
		t.Fatal(err)
	}
	documented := map[string]any{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([\\w.]+)` \\| `([^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		var value any
		if err := yaml.Unmarshal([]byte(m[2]), &value); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		documented[m[1]] = value
	}
	want := map[string]any{}
	for _, name := range leaves("", values) {
		want[name] = at(values, name)
	}
	// The document says it in words: the chart's version.
	delete(want, "image.tag")
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("values (-values.yaml +document):\n%s", diff)
	}
}

// What is wrong with the values is said in a line.
func TestWrongValues(t *testing.T) {
	cases := map[string]struct{ set, want string }{
		"Unknown":         {"replicas=3", "additional properties 'replicas' not allowed"},
		"UnknownInGroup":  {"image.name=x", "at '/image': additional properties 'name' not allowed"},
		"WrongType":       {"replicaCount=many", "at '/replicaCount': got string, want integer"},
		"Negative":        {"replicaCount=-1", "at '/replicaCount': minimum: got -1, want 0"},
		"NotAllowed":      {"image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"},
		"OwnNamespace":    {"env.NAMESPACE=other", "env.NAMESPACE: the manager's namespace is that of the release"},
		"ConfigAsFile":    {"site.config\\.yaml=x", "site: config.yaml is the value config"},
		"FileOutside":     {"site.\\.\\./x=y", "at '/site': additional properties '../x' not allowed"},
		"NoVariable":      {"env.NO-NAME=x", "at '/env': additional properties 'NO-NAME' not allowed"},
		"BothNamespaces":  {"clusterWide=true,env.WATCH_NAMESPACES=a", "clusterWide is for all namespaces: it and env.WATCH_NAMESPACES exclude each other"},
		"AnotherSelector": {"nodeSelector.kubernetes\\.io/os=windows", "nodeSelector: kubernetes.io/os is linux"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, stderr, err := helm(t, "template", "machines", chart, "--set", tc.set)
			if err == nil || !strings.Contains(stderr, tc.want) {
				t.Errorf("%v, want %q in\n%s", err, tc.want, stderr)
			}
		})
	}
}

// The defaults are those of the operators that this chart takes the place of.
func TestDefaults(t *testing.T) {
	all := objects(t, "")
	want := map[string]any{
		"spec.replicas": int64(1), manager + "imagePullPolicy": "IfNotPresent",
		manager + "resources.limits":   map[string]any{"cpu": "500m", "memory": "512Mi"},
		manager + "resources.requests": map[string]any{"cpu": "100m", "memory": "256Mi"},
	}
	for path, want := range want {
		if diff := cmp.Diff(want, at(all["Deployment vm-operator"].Object, path)); diff != "" {
			t.Errorf("%s (-want +is):\n%s", path, diff)
		}
	}
	var about struct{ Version, AppVersion string }
	text, err := os.ReadFile(chart + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &about); err != nil {
		t.Fatal(err)
	}
	if got := at(all["Deployment vm-operator"].Object, manager+"image"); got != "cuvee-manager:"+about.Version || about.Version != about.AppVersion {
		t.Errorf("the image of version %s (%s) is %s", about.Version, about.AppVersion, got)
	}
}

// Helm's own linter has nothing to say.
func TestLint(t *testing.T) {
	if out := must(t, "lint", "--strict", chart); strings.Contains(out, "[WARNING]") {
		t.Error(out)
	}
}
