package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// scrape reads /metrics as Prometheus does; nil if it cannot be read.
func scrape(address string) map[string]*dto.MetricFamily {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(get(address, "/metrics")))
	if err != nil {
		return nil
	}
	return families
}

// labels are the names of the labels of a metric.
func labels(f *dto.MetricFamily) string {
	var out []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		out = append(out, "`"+l.GetName()+"`")
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestMetrics has a manager make something, and holds the table of docs/manager.md to what it then serves: every metric of its own, and
// no other.
func TestMetrics(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "lab.cue"), []byte("package vm\n\nmetrics: shares: 7\n"), 0o600))
	address := w.address()
	w.manager(w.admin("metrics"), "--templates", dir, "--metrics-bind-address", address)
	w.vm("web")
	var families map[string]*dto.MetricFamily
	w.eventually(func() string {
		families = scrape(address)
		// It comes when a pass has found objects as they shall be, so all others have come.
		if families["cuvee_applies_skipped_total"] == nil || families["cuvee_resources"] == nil {
			return "the metrics are not all there: " + strings.Join(slices.Sorted(maps.Keys(families)), " ")
		}
		return ""
	})
	w.eventually(func() string {
		return lacks(get(address, "/metrics"), `cuvee_resources{namespace="`+w.namespace+`",package="vm",ready="True",reason="Stopped"} 1`)
	})
	if got := families["cuvee_leader"].GetMetric()[0].GetGauge().GetValue(); got != 1 {
		t.Errorf("cuvee_leader is %v", got)
	}
	if f := families["cuvee_vm_shares"]; f == nil || f.GetMetric()[0].GetGauge().GetValue() != 7 || labels(f) != "`name` `namespace`" {
		t.Errorf("the templates' metric is %v", f)
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if f := families[name]; strings.HasPrefix(name, "cuvee_") && !strings.HasPrefix(name, "cuvee_vm_") {
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), labels(f), f.GetHelp())
		}
	}
	documented(t, "metrics", table.String())
}

// A manager that waits for another one says that it is not the leader.
func TestLeaderMetric(t *testing.T) {
	w := newWorld(t, 1)
	leader := func(address string) string {
		f := scrape(address)["cuvee_leader"]
		if f == nil {
			return "nothing"
		}
		return fmt.Sprint(f.GetMetric()[0].GetGauge().GetValue())
	}
	first, second := w.address(), w.address()
	m := w.manager(w.admin("leading"), "--leader-election", "--metrics-bind-address", first)
	w.eventually(func() string { return lacks(leader(first), "1") })
	w.manager(w.admin("leading"), "--leader-election", "--metrics-bind-address", second)
	w.eventually(func() string { return lacks(leader(second), "0") })
	before := w.holder()
	// One that is asked to end lets the lease go: the other one need not wait until it has run out.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Stop(ctx); err != nil {
		t.Error(err)
	}
	if w.holder() == before {
		t.Errorf("after SIGTERM the lease is still held by %q", before)
	}
	w.eventually(func() string { return lacks(leader(second), "1") })
}

// holder is who has the lease.
func (w *world) holder() string {
	w.Helper()
	lease, err := w.client.Resource(resource("coordination.k8s.io", "leases")).Namespace(w.namespace).Get(w.Context(), leaseName, metav1.GetOptions{})
	w.must(err)
	holder, _, err := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	w.must(err)
	return holder
}
