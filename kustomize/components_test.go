package kustomize_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// components are the names of all components.
func components(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("components/*/kustomization.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	var out []string
	for _, f := range files {
		out = append(out, filepath.Base(filepath.Dir(f)))
	}
	return out
}

// with returns what the base becomes with components, in the namespace vms.
func with(t *testing.T, names ...string) []*unstructured.Unstructured {
	t.Helper()
	site := "kind: Kustomization\nnamespace: vms\nresources: [../base]\ncomponents:\n"
	for _, name := range names {
		site += "- ../components/" + name + "\n"
	}
	return inMemory(t, "/", site)
}

// Each component adds objects that Kubernetes knows to the base, and all of them together go with each other.
func TestComponents(t *testing.T) {
	base := len(build(t, "base"))
	sum := 0
	for _, name := range components(t) {
		t.Run(name, func(t *testing.T) {
			objects := with(t, name)
			if len(objects) <= base {
				t.Errorf("it has %d objects, as many as the base", len(objects))
			}
			sum += len(objects) - base
			for _, o := range objects {
				if !strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
					decode(t, o)
				}
				if o.GetNamespace() != "vms" && !strings.HasPrefix(o.GetKind(), "Cluster") {
					t.Errorf("%s %s is in the namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
				}
			}
		})
	}
	if got := len(with(t, components(t)...)) - base; got != sum {
		t.Errorf("all components together have %d objects, one by one %d", got, sum)
	}
}

// The document has a line for each component.
func TestComponentsDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/components.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1])
	}
	if diff := cmp.Diff(components(t), documented); diff != "" {
		t.Errorf("components (-there +documented):\n%s", diff)
	}
}

// settings are the defaults of the templates.
func settings(t *testing.T) cue.Value {
	t.Helper()
	instances := load.Instances([]string{"./templates/vm"}, &load.Config{FS: cuvee.Files, Dir: "/"})
	v := cuecontext.New().BuildInstance(instances[0]).LookupPath(cue.ParsePath("settings"))
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func setting[T any](t *testing.T, name string) T {
	t.Helper()
	var out T
	if err := settings(t).LookupPath(cue.ParsePath(name)).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The device plugin offers the resources that VMs' pods ask for, and is applied by itself to a namespace where it may run.
func TestDevicePlugin(t *testing.T) {
	objects := build(t, "components/kvm-device-plugin")
	if len(objects) != 1 || objects[0].GetNamespace() != "kube-system" {
		t.Fatalf("objects are %v", objects)
	}
	args := decode(t, objects[0]).(*appsv1.DaemonSet).Spec.Template.Spec.Containers[0].Args
	domain, offered := "", map[string]string{}
	for i, arg := range args {
		if d, ok := strings.CutPrefix(arg, "--domain="); ok {
			domain = d
		}
		if arg != "--device" {
			continue
		}
		var device struct {
			Name   string
			Groups []struct {
				Count uint
				Paths []struct{ Path, Permissions string }
			}
		}
		if err := yaml.UnmarshalStrict([]byte(args[i+1]), &device); err != nil {
			t.Fatal(err)
		}
		if g := device.Groups[0]; len(device.Groups) != 1 || len(g.Paths) != 1 || g.Paths[0].Permissions != "rw" || g.Count < 100 {
			t.Errorf("%s is %+v", device.Name, device.Groups)
		}
		offered[path.Join(domain, device.Name)] = device.Groups[0].Paths[0].Path
	}
	want := map[string]string{setting[string](t, "kvm.resource"): "/dev/kvm", setting[string](t, "network.tunResource"): "/dev/net/tun"}
	if diff := cmp.Diff(want, offered); diff != "" {
		t.Errorf("devices by resource (-templates +plugin):\n%s", diff)
	}
}

// vmPod is the template of a VM's pod.
func vmPod(t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	text, err := os.ReadFile("../examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := render.Decode("hello.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/vm"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := set.Render(render.Input{Document: documents[0]})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range result.Objects {
		if o.Key == "statefulSet" {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(o.JSON); err != nil {
				t.Fatal(err)
			}
			return decode(t, u).(*appsv1.StatefulSet).Spec.Template
		}
	}
	t.Fatal("there is no StatefulSet")
	return corev1.PodTemplateSpec{}
}

// hasPort says whether a container has a port of a name.
func hasPort(ports []corev1.ContainerPort, name string) bool {
	return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}

// open says whether a policy lets a client with these labels, in a namespace with these labels, get at a TCP port.
func open(p *networkingv1.NetworkPolicy, port int32, pod, namespace labels.Set) bool {
	for _, rule := range p.Spec.Ingress {
		for _, at := range rule.Ports {
			last := at.Port.IntVal
			if at.EndPort != nil {
				last = *at.EndPort
			}
			if *at.Protocol == "TCP" && at.Port.IntVal <= port && port <= last && from(rule.From, pod, namespace) {
				return true
			}
		}
	}
	return false
}

func from(peers []networkingv1.NetworkPolicyPeer, pod, namespace labels.Set) bool {
	for _, p := range peers {
		if p.PodSelector != nil && labels.SelectorFromSet(p.PodSelector.MatchLabels).Matches(pod) && p.NamespaceSelector == nil {
			return true
		}
		if p.NamespaceSelector != nil && labels.SelectorFromSet(p.NamespaceSelector.MatchLabels).Matches(namespace) {
			return true
		}
	}
	return len(peers) == 0
}

// The runner's own ports are for some, those of its guest for all.
func TestNetworkPolicyOfRunners(t *testing.T) {
	p := decode(t, find(t, with(t, "network-policy"), "NetworkPolicy", "vm-runner")).(*networkingv1.NetworkPolicy)
	if pod := vmPod(t).Labels; !labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(labels.Set(pod)) {
		t.Errorf("%v does not select pods with the labels %v", p.Spec.PodSelector.MatchLabels, pod)
	}
	metrics, console, display := setting[int32](t, "metrics.port"), setting[int32](t, "console.port"), setting[int32](t, "display.port")
	client, prometheus := labels.Set{"cuvee-vm.github.io/console-client": "true"}, labels.Set{"metrics": "enabled"}
	for port, want := range map[int32][3]bool{
		1: {true, true, true}, display: {true, true, true}, 8080: {true, true, true}, 65535: {true, true, true},
		metrics: {false, false, true}, console: {false, true, false},
	} {
		got := [3]bool{open(p, port, nil, nil), open(p, port, client, nil), open(p, port, nil, prometheus)}
		if got != want {
			t.Errorf("port %d lets anybody, clients of consoles, Prometheus in: %v, want %v", port, got, want)
		}
	}
}

// The manager is selected, and what it listens at is for Prometheus.
func TestNetworkPolicyOfManager(t *testing.T) {
	objects := with(t, "network-policy")
	p := decode(t, find(t, objects, "NetworkPolicy", "vm-operator")).(*networkingv1.NetworkPolicy)
	pod := decode(t, find(t, objects, "Deployment", "vm-operator")).(*appsv1.Deployment).Spec.Template
	if !labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels)) {
		t.Errorf("%v does not select pods with the labels %v", p.Spec.PodSelector.MatchLabels, pod.Labels)
	}
	if len(p.Spec.Ingress) != 1 || !hasPort(pod.Spec.Containers[0].Ports, p.Spec.Ingress[0].Ports[0].Port.StrVal) ||
		from(p.Spec.Ingress[0].From, nil, nil) || !from(p.Spec.Ingress[0].From, nil, labels.Set{"metrics": "enabled"}) {
		t.Errorf("it lets in %+v", p.Spec.Ingress)
	}
	ports := map[string]bool{}
	for _, rule := range p.Spec.Egress {
		for _, at := range rule.Ports {
			ports[fmt.Sprint(*at.Protocol, " ", at.Port)] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"UDP 53": true, "TCP 53": true, "TCP 443": true, "TCP 6443": true}, ports); diff != "" {
		t.Errorf("what the manager may reach (-want +is):\n%s", diff)
	}
}

// What Prometheus is told to look for is there.
func TestMonitors(t *testing.T) {
	objects := with(t, "service-monitor")
	selects := func(selector any, of map[string]string) bool {
		set := labels.Set{}
		for k, v := range selector.(map[string]any) {
			set[k] = fmt.Sprint(v)
		}
		return len(set) > 1 && labels.SelectorFromSet(set).Matches(labels.Set(of))
	}
	service := find(t, objects, "Service", "vm-operator-metrics")
	monitor := find(t, objects, "ServiceMonitor", "vm-operator")
	manager := decode(t, find(t, objects, "Deployment", "vm-operator")).(*appsv1.Deployment).Spec.Template
	if !selects(at(monitor, "spec", "selector", "matchLabels"), service.GetLabels()) || !selects(at(service, "spec", "selector"), manager.Labels) {
		t.Error("the ServiceMonitor does not find the manager")
	}
	port, _ := at(service, "spec", "ports").([]any)[0].(map[string]any)
	endpoint, _ := at(monitor, "spec", "endpoints").([]any)[0].(map[string]any)
	if port["name"] != endpoint["port"] || !hasPort(manager.Spec.Containers[0].Ports, fmt.Sprint(port["targetPort"])) {
		t.Errorf("the ServiceMonitor is for the port %v, the Service has %v", endpoint["port"], port)
	}
	pods := find(t, objects, "PodMonitor", "vm-runner")
	pod := vmPod(t)
	if !selects(at(pods, "spec", "selector", "matchLabels"), pod.Labels) {
		t.Errorf("the PodMonitor does not select pods with the labels %v", pod.Labels)
	}
	metrics := strconv.Itoa(setting[int](t, "metrics.port"))
	if pod.Annotations["cuvee-vm.github.io/metrics-port"] != metrics {
		t.Errorf("the annotations of a VM's pod are %v", pod.Annotations)
	}
}

// The manager may do in the cluster what it may do in a namespace, and see what kinds there are; its lease, and what it tells about
// that, stay in its own.
func TestClusterWide(t *testing.T) {
	objects := with(t, "cluster-wide")
	role := decode(t, find(t, objects, "Role", "vm-operator")).(*rbacv1.Role)
	var want []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		if rule.APIGroups[0] != "coordination.k8s.io" && (rule.APIGroups[0] != "" || rule.Resources[0] != "events") {
			want = append(want, rule)
		}
	}
	want = append(want, rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}})
	cluster := decode(t, find(t, objects, "ClusterRole", "vm-operator")).(*rbacv1.ClusterRole)
	if diff := cmp.Diff(want, cluster.Rules); diff != "" {
		t.Errorf("rules (-Role +ClusterRole):\n%s", diff)
	}
	binding := decode(t, find(t, objects, "ClusterRoleBinding", "vm-operator")).(*rbacv1.ClusterRoleBinding)
	if s := binding.Subjects; len(s) != 1 || s[0].Namespace != "vms" || s[0].Name != "vm-operator" || binding.RoleRef.Name != cluster.Name {
		t.Errorf("the binding is %+v of %+v", s, binding.RoleRef)
	}
	manager := decode(t, find(t, objects, "Deployment", "vm-operator")).(*appsv1.Deployment)
	env := map[string]string{}
	for _, e := range manager.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["WATCH_NAMESPACES"] != "*" || len(env) != len(deployment(t, "base").Spec.Template.Spec.Containers[0].Env)+1 {
		t.Errorf("the environment is %v", env)
	}
}
