package promql

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// situation is a cluster in which an alert fires, and one that is alike, in which it does not. A line is a series, a minute a value.
type situation struct {
	fires, silent string
	// labels are those that the alert has then.
	labels []string
}

var situations = map[string]situation{
	"CuveeManagerDown": {
		fires:  `up{job="vm-operator"} 0x60`,
		silent: "up{job=\"vm-operator\", pod=\"a\"} 0x60\n\tup{job=\"vm-operator\", pod=\"b\"} 1x60",
		labels: nil,
	},
	"CuveeNoLeader": {
		fires:  "cuvee_leader{namespace=\"n\", pod=\"a\"} 0x60\n\tcuvee_leader{namespace=\"n\", pod=\"b\"} 0x60",
		silent: "cuvee_leader{namespace=\"n\", pod=\"a\"} 0x60\n\tcuvee_leader{namespace=\"n\", pod=\"b\"} 1x60",
		labels: []string{"namespace"},
	},
	"CuveeTemplatesRefused": {
		fires:  `cuvee_templates_refused{namespace="n"} 1x60`,
		silent: `cuvee_templates_refused{namespace="n"} 0x60`,
		labels: []string{"namespace"},
	},
	"CuveeReconcileFailing": {
		fires:  `cuvee_reconcile_duration_seconds_count{namespace="n", package="vm", result="failed"} 0+1x60`,
		silent: "cuvee_reconcile_duration_seconds_count{namespace=\"n\", package=\"vm\", result=\"failed\"} 7x60\n\tcuvee_reconcile_duration_seconds_count{namespace=\"n\", package=\"vm\", result=\"done\"} 0+1x60",
		labels: []string{"namespace", "package"},
	},
	"CuveeForbidden": {
		fires:  `cuvee_writes_total{namespace="n", package="vm", verb="patch", kind="Service", result="Forbidden"} 0+1x60`,
		silent: "cuvee_writes_total{namespace=\"n\", package=\"vm\", verb=\"patch\", kind=\"Service\", result=\"Forbidden\"} 3x60\n\tcuvee_writes_total{namespace=\"n\", package=\"vm\", verb=\"patch\", kind=\"Service\", result=\"OK\"} 0+1x60",
		labels: []string{"namespace", "verb", "kind"},
	},
	"CuveeResourcesRefused": {
		fires:  `cuvee_resources{namespace="n", package="vm", ready="False", reason="InvalidSpec"} 1x60`,
		silent: "cuvee_resources{namespace=\"n\", package=\"vm\", ready=\"True\", reason=\"Running\"} 5x60\n\tcuvee_resources{namespace=\"n\", package=\"vm\", ready=\"False\", reason=\"WaitingForPod\"} 1x60",
		labels: []string{"namespace", "package", "reason"},
	},
	"CuveePodsDoNotRun": {
		fires:  `cuvee_resources{namespace="n", package="vm", ready="False", reason="Unschedulable"} 2x60`,
		silent: `cuvee_resources{namespace="n", package="vm", ready="False", reason="GuestStarting"} 2x60`,
		labels: []string{"namespace", "package", "reason"},
	},
	"CuveeRunnerDown": {
		fires:  `up{job="vm-runner", namespace="n", vm="v"} 0x60`,
		silent: `up{job="vm-runner", namespace="n", vm="v"} 1x60`,
		labels: []string{"job", "namespace", "vm"},
	},
	"CuveeVMPaused": {
		fires:  `cuvee_vm_state{namespace="n", vm="v", state="Paused"} 1x60`,
		silent: "cuvee_vm_state{namespace=\"n\", vm=\"v\", state=\"Paused\"} 0x60\n\tcuvee_vm_state{namespace=\"n\", vm=\"v\", state=\"Booted\"} 1x60",
		labels: []string{"namespace", "vm", "state"},
	},
	"CuveeDiskErrors": {
		fires: `cuvee_disk_failed_reads_total{namespace="n", vm="v", disk="disk0"} 0x60
	cuvee_disk_failed_writes_total{namespace="n", vm="v", disk="disk0"} 0+1x60
	cuvee_disk_failed_flushes_total{namespace="n", vm="v", disk="disk0"} 0x60`,
		silent: `cuvee_disk_failed_reads_total{namespace="n", vm="v", disk="disk0"} 4x60
	cuvee_disk_failed_writes_total{namespace="n", vm="v", disk="disk0"} 4x60
	cuvee_disk_failed_flushes_total{namespace="n", vm="v", disk="disk0"} 4x60`,
		labels: []string{"namespace", "vm", "disk"},
	},
	"CuveeQEMUUnresponsive": {
		fires:  `cuvee_qmp_unanswered_total{namespace="n", vm="v"} 0+1x60`,
		silent: `cuvee_qmp_unanswered_total{namespace="n", vm="v"} 2x60`,
		labels: []string{"namespace", "vm"},
	},
	"CuveeGuestRebootsOften": {
		fires:  `cuvee_vm_reboots_total{namespace="n", vm="v"} 0x40 5x20`,
		silent: `cuvee_vm_reboots_total{namespace="n", vm="v"} 0x40 1x20`,
		labels: []string{"namespace", "vm"},
	},
	"CuveeChangesPending": {
		fires:  `cuvee_vm_pending_changes{namespace="n", vm="v"} 2x60`,
		silent: `cuvee_vm_pending_changes{namespace="n", vm="v"} 0x60`,
		labels: []string{"namespace", "vm"},
	},
}

// evaluate returns the labels of what an expression gives after an hour of these series, and how many results it has.
func evaluate(t *testing.T, expr, series string) (names []string, results int) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n\t"+series+"\n")
	engine := promqltest.NewTestEngine(t, false, 0, 1000)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range vector {
		names = names[:0]
		sample.Metric.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel {
				names = append(names, l.Name)
			}
		})
	}
	return names, len(vector)
}

// Each alert fires when it shall, with the labels that its text names, and not when all is well.
func TestAlerts(t *testing.T) {
	for _, a := range alerts(t) {
		t.Run(a.Name, func(t *testing.T) {
			s, ok := situations[a.Name]
			if !ok {
				t.Fatal("nothing says when it fires")
			}
			names, n := evaluate(t, a.Expr, s.fires)
			slices.Sort(names)
			want := slices.Sorted(slices.Values(s.labels))
			if n != 1 || !slices.Equal(names, want) {
				t.Errorf("it fires %d times, with the labels %v, want once with %v", n, names, want)
			}
			if _, n := evaluate(t, a.Expr, s.silent); n != 0 {
				t.Error("it fires when all is well")
			}
		})
	}
}
