package endpoint

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const monitoringDoc = "../../docs/monitoring.md"

var update = flag.Bool("update", false, "write the table of metrics in "+monitoringDoc)

// TestDocumentedMetrics holds the table in docs/monitoring.md to what is served; with -update it writes it.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile(monitoringDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- metrics -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /metrics -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for the metrics", monitoringDoc)
	}
	want := before + "<!-- metrics -->\n" + metricsTable(t) + "<!-- /metrics -->" + after
	if *update {
		if err := os.WriteFile(monitoringDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not current, run go test ./runner/endpoint -run TestDocumentedMetrics -update (-want +got):\n%s", monitoringDoc, diff)
	}
}

func metricsTable(t *testing.T) string {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(get(t, full(), "/metrics").Body)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		kind := strings.ToLower(dto.MetricType_name[int32(f.GetType())])
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		slices.Sort(labels)
		out.WriteString("| `" + name + "` | " + kind + " | " + strings.Join(labels, " ") + " | " + f.GetHelp() + " |\n")
	}
	return out.String()
}
