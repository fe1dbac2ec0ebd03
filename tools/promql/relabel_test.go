package promql

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"
	k8syaml "sigs.k8s.io/yaml"
)

// relabelings are those of the PodMonitor for the runners, in the form that the Prometheus Operator gives to Prometheus.
func relabelings(t *testing.T) []*relabel.Config {
	t.Helper()
	text, err := os.ReadFile(components + "/service-monitor/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var monitor struct {
		Spec struct {
			PodMetricsEndpoints []struct {
				Relabelings []map[string]any
			}
		}
	}
	if err := k8syaml.Unmarshal(text, &monitor); err != nil {
		t.Fatal(err)
	}
	var out []*relabel.Config
	upper := regexp.MustCompile(`[A-Z]`)
	for _, r := range monitor.Spec.PodMetricsEndpoints[0].Relabelings {
		config := map[string]any{}
		for name, value := range r {
			config[upper.ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })] = value
		}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var c relabel.Config
		if err := yaml.UnmarshalStrict(text, &c); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
		c.NameValidationScheme = model.UTF8Validation
		out = append(out, &c)
	}
	return out
}

// Prometheus asks a runner at the port of the annotation, and names the VM.
func TestRelabelings(t *testing.T) {
	const port = "__meta_kubernetes_pod_annotation_cuvee_vm_github_io_metrics_port"
	cases := map[string]struct {
		reason string
		pod    map[string]string
		want   string // the address; "" if there is nothing to ask
	}{
		"Own":     {"A port of the pod.", map[string]string{"__address__": "10.1.2.3:9477", "__meta_kubernetes_pod_ip": "10.1.2.3", port: "9477"}, "10.1.2.3:9477"},
		"Other":   {"Another port of the same pod is the same target.", map[string]string{"__address__": "10.1.2.3:9478", "__meta_kubernetes_pod_ip": "10.1.2.3", port: "9477"}, "10.1.2.3:9477"},
		"Node":    {"A pod in the node's network declares no port.", map[string]string{"__address__": "192.0.2.1", "__meta_kubernetes_pod_ip": "192.0.2.1", port: "20123"}, "192.0.2.1:20123"},
		"IPv6":    {"An address has colons.", map[string]string{"__address__": "fd00::1", "__meta_kubernetes_pod_ip": "fd00::1", port: "9477"}, "[fd00::1]:9477"},
		"Off":     {"A site without metrics has no annotation.", map[string]string{"__address__": "10.1.2.3:5900", "__meta_kubernetes_pod_ip": "10.1.2.3"}, ""},
		"Pending": {"A pod that does not run.", map[string]string{"__address__": "10.1.2.3:9477", "__meta_kubernetes_pod_ip": "10.1.2.3", port: "9477", "__meta_kubernetes_pod_phase": "Pending"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := labels.NewBuilder(labels.EmptyLabels())
			b.Set("__meta_kubernetes_pod_phase", "Running")
			b.Set("__meta_kubernetes_pod_label_app_kubernetes_io_instance", "web")
			for k, v := range tc.pod {
				b.Set(k, v)
			}
			keep := relabel.ProcessBuilder(b, relabelings(t)...)
			got := b.Labels()
			if keep != (tc.want != "") || keep && (got.Get("__address__") != tc.want || got.Get("vm") != "web") {
				t.Errorf("%s\nkept: %v, %v, want the address %q", tc.reason, keep, got, tc.want)
			}
		})
	}
}
