package promql

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

const (
	components = "../../kustomize/components"
	rules      = components + "/alerts/prometheusrule.yaml"
)

// row is a line of a table of metrics: the metric, its type, its labels.
var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| *((?:`\\w+` ?)*) *\\|")

// documented are the labels of each metric of the documents, which tests of the programs hold to what they serve.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{
		// Prometheus' own, and those of every program.
		"up": nil, "process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil,
	}
	for _, name := range []string{"manager.md", "monitoring.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "<!-- metrics -->")
		table, _, ok := strings.Cut(rest, "<!-- /metrics -->")
		rows := row.FindAllStringSubmatch(table, -1)
		if !ok || len(rows) < 10 {
			t.Fatalf("%s has only %d metrics", name, len(rows))
		}
		for _, m := range rows {
			labels := strings.Fields(strings.ReplaceAll(m[3], "`", " "))
			out[m[1]] = labels
			if m[2] == "histogram" {
				out[m[1]+"_bucket"], out[m[1]+"_sum"], out[m[1]+"_count"] = append(labels, "le"), labels, labels
			}
		}
	}
	return out
}

// ofTarget are the labels that every series has: Prometheus' own, and what the monitors of the component service-monitor add.
func ofTarget(metric string) []string {
	labels := []string{"job", "instance", "namespace", "pod"}
	if !strings.HasPrefix(metric, "process_") {
		labels = append(labels, "vm")
	}
	return labels
}

// expressions are all that the components have, with the alerts.
func expressions(t *testing.T) []Expression {
	t.Helper()
	files, err := filepath.Glob(components + "/grafana-dashboard/*.json")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	var out []Expression
	for _, f := range files {
		of, err := Dashboard(f)
		if err != nil || len(of) < 10 {
			t.Fatal(f, of, err)
		}
		out = append(out, of...)
	}
	for _, a := range alerts(t) {
		out = append(out, Expression{a.Name, a.Expr})
	}
	return out
}

func alerts(t *testing.T) []Alert {
	t.Helper()
	out, err := Alerts(rules)
	if err != nil || len(out) < 10 {
		t.Fatal(out, err)
	}
	return out
}

// Every expression is in Prometheus' language, and is about metrics and labels that the programs have.
func TestExpressions(t *testing.T) {
	known := documented(t)
	for _, e := range expressions(t) {
		uses, err := Uses(e.Text)
		if err != nil || len(uses) == 0 {
			t.Errorf("%s: %v", e.Where, err)
		}
		for _, u := range uses {
			labels, ok := known[u.Metric]
			if !ok {
				t.Errorf("%s: there is no metric %s", e.Where, u.Metric)
			}
			for _, l := range u.Labels {
				if !slices.Contains(append(ofTarget(u.Metric), labels...), l) {
					t.Errorf("%s: %s has no label %s", e.Where, u.Metric, l)
				}
			}
		}
	}
}

// A mistake in an expression is seen: the tests above would be worth nothing otherwise.
func TestUses(t *testing.T) {
	uses, err := Uses(`sum by (a) (rate(x_total{b="c"}[5m])) / on (d) group_left y > 3`)
	want := []Used{{"x_total", []string{"b", "a"}}, {"y", nil}}
	if err != nil || !slices.EqualFunc(uses, want, func(a, b Used) bool { return a.Metric == b.Metric && slices.Equal(a.Labels, b.Labels) }) {
		t.Errorf("got %v, %v, want %v", uses, err, want)
	}
	if _, err := Uses("sum by ("); err == nil {
		t.Error("what is not in the language is taken")
	}
}

// Each alert says what it is about, how bad that is, and only names labels that it has.
func TestAlertsAreWhole(t *testing.T) {
	named := regexp.MustCompile(`\$labels\.(\w+)`)
	text, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	inDocument := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Cuvee\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		inDocument[m[1]] = m[2]
	}
	for _, a := range alerts(t) {
		if a.For != "" {
			if d, err := model.ParseDuration(a.For); err != nil || time.Duration(d) > 2*time.Hour {
				t.Errorf("%s: for %s: %v", a.Name, a.For, err)
			}
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) || inDocument[a.Name] != a.Labels["severity"] {
			t.Errorf("%s has the severity %q, in docs/monitoring.md %q", a.Name, a.Labels["severity"], inDocument[a.Name])
		}
		delete(inDocument, a.Name)
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no summary, or no description", a.Name)
		}
		for _, m := range named.FindAllStringSubmatch(a.Annotations["summary"]+a.Annotations["description"], -1) {
			if fires, ok := situations[a.Name]; ok && !slices.Contains(fires.labels, m[1]) {
				t.Errorf("%s names the label %s, and has only %v", a.Name, m[1], fires.labels)
			}
		}
	}
	if len(inDocument) > 0 {
		t.Errorf("docs/monitoring.md has alerts that are not there: %v", slices.Sorted(maps.Keys(inDocument)))
	}
}
