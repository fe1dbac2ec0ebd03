package endpoint

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/guestagent"
	"github.com/cuvee-vm/cuvee/runner/qmp"
	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// measured is a VM of which all is known. How a real one is measured is tested with the command.
type measured struct {
	status  runner.Status
	metrics runner.Metrics
	err     error
}

func (m measured) Status() (runner.Status, <-chan struct{}) { return m.status, nil }

func (m measured) Metrics(context.Context) (runner.Metrics, error) { return m.metrics, m.err }

// full has another value in each field.
func full() measured {
	latency := qmp.Latency{Count: 9, Sum: 1500 * time.Millisecond, Unanswered: 2}
	for i := range latency.Buckets {
		latency.Buckets[i] = uint64(min(i, 8))
	}
	return measured{
		status: runner.Status{
			State: runner.Paused, Since: time.Unix(1700000000, 0), QEMU: "7.2", CPUs: 3, RAM: 1 << 30, Resets: 4, Reboots: 5,
			Pending: []runner.PendingChange{{Field: "currentCpus"}},
			Imports: []runner.Import{{Disk: "disk-0", State: runner.Filled, Bytes: 31, Total: 32, Took: 33 * time.Second}},
			Agent:   runner.AgentAnswers, Login: vmopagent.State{Connected: true, User: "ann"}, ConsoleClient: "192.0.2.1",
			Guest: &runner.Guest{AgentVersion: "7.2", OS: guestagent.OS{ID: "debian", VersionID: "12", KernelRelease: "6.1"}},
		},
		metrics: runner.Metrics{
			CPUTime: 90 * time.Second, RSS: 2 << 30,
			Disks: map[string]runner.DiskMetrics{
				"disk0": {
					ReadBytes: 1, WrittenBytes: 2, ReadOperations: 3, WriteOperations: 4, Flushes: 5,
					ReadTime: 6 * time.Second, WriteTime: 7 * time.Second, FlushTime: 8 * time.Second,
					FailedReads: 9, FailedWrites: 10, FailedFlushes: 11,
				},
				"odd\"\\\nname": {ReadBytes: 12},
			},
			Networks: map[string]runner.NetworkMetrics{
				"net0": {ReceivedBytes: 21, SentBytes: 22, ReceivedPackets: 23, SentPackets: 24, ReceiveDropped: 25, SendDropped: 26},
			},
			QMP: latency,
		},
	}
}

func get(t *testing.T, m measured, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(func() Source { return m }, "1.2.3").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// scrape reads metrics the way Prometheus does: a map from "name{label=value}" to the value. Of a histogram it has the count and the sum.
func scrape(t *testing.T, w *httptest.ResponseRecorder) map[string]float64 {
	t.Helper()
	if got := w.Header().Get("Content-Type"); expfmt.ResponseFormat(w.Header()).FormatType() != expfmt.TypeTextPlain {
		t.Errorf("content type is %s", got)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for name, family := range families {
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		if strings.HasSuffix(name, "_total") != (family.GetType() == dto.MetricType_COUNTER) {
			t.Errorf("%s is a %s", name, family.GetType())
		}
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				values[key] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				values[key] = m.GetGauge().GetValue()
			default:
				values[key+"_count"], values[key+"_sum"] = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
				for _, b := range m.GetHistogram().GetBucket() {
					if b.GetCumulativeCount() > m.GetHistogram().GetSampleCount() {
						t.Errorf("%s has more replies of %g s than there are", key, b.GetUpperBound())
					}
				}
			}
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	got := scrape(t, get(t, full(), "/metrics"))
	// What tells about this process has no values that are known here.
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "go_goroutines"} {
		if got[name] <= 0 {
			t.Errorf("%s is %g", name, got[name])
		}
		delete(got, name)
	}
	want := map[string]float64{
		"cuvee_runner_info{version=1.2.3}{qemu=7.2}": 1,
		"cuvee_vm_state{state=Starting}":             0, "cuvee_vm_state{state=Booting}": 0, "cuvee_vm_state{state=Booted}": 0,
		"cuvee_vm_state{state=Paused}": 1, "cuvee_vm_state{state=Terminating}": 0, "cuvee_vm_state{state=Stopped}": 0,
		"cuvee_vm_state{state=Failed}": 0,
		"cuvee_vm_state_since_seconds": 1700000000, "cuvee_vm_cpus": 3, "cuvee_vm_memory_bytes": 1 << 30, "cuvee_vm_resets_total": 4, "cuvee_vm_reboots_total": 5,
		"cuvee_vm_guest_agent_connected": 1, "cuvee_vm_vmop_agent_connected": 1, "cuvee_vm_user_logged_in": 1, "cuvee_vm_console_connected": 1,
		"cuvee_vm_guest_info{agent=7.2}{os=debian}{version=12}{kernel=6.1}": 1,
		"cuvee_runner_import_bytes{disk=disk-0}":                            31, "cuvee_runner_import_size_bytes{disk=disk-0}": 32, "cuvee_runner_import_seconds{disk=disk-0}": 33,
		"cuvee_runner_import_state{disk=disk-0}{state=Filled}": 1,
		"cuvee_vm_pending_changes":                             1, "cuvee_qemu_cpu_seconds_total": 90, "cuvee_qemu_resident_memory_bytes": 2 << 30,
		"cuvee_qmp_reply_seconds_count": 9, "cuvee_qmp_reply_seconds_sum": 1.5, "cuvee_qmp_unanswered_total": 2,
	}
	disk := []string{
		"read_bytes", "written_bytes", "reads", "writes", "flushes", "read_seconds", "write_seconds", "flush_seconds",
		"failed_reads", "failed_writes", "failed_flushes",
	}
	for i, name := range disk {
		want["cuvee_disk_"+name+"_total{disk=disk0}"] = float64(i + 1)
		want["cuvee_disk_"+name+"_total{disk=odd\"\\\nname}"] = 0
	}
	want["cuvee_disk_read_bytes_total{disk=odd\"\\\nname}"] = 12
	network := []string{"received_bytes", "sent_bytes", "received_packets", "sent_packets", "receive_dropped", "send_dropped"}
	for i, name := range network {
		want["cuvee_network_"+name+"_total{interface=net0}"] = float64(i + 21)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// What cannot be measured is not zero.
func TestMetricsWithoutQEMU(t *testing.T) {
	m := full()
	m.err = runner.ErrNotRunning
	for name := range scrape(t, get(t, m, "/metrics")) {
		for _, prefix := range []string{"cuvee_qemu", "cuvee_disk", "cuvee_network", "cuvee_qmp"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("there is %s without QEMU", name)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	ready := map[runner.State]int{
		"": 503, runner.Starting: 503, runner.Booting: 200, runner.Booted: 200, runner.Paused: 200, runner.Terminating: 200,
		runner.Stopped: 503, runner.Failed: 503,
	}
	for state, want := range ready {
		m := measured{status: runner.Status{State: state}, err: errors.ErrUnsupported}
		if w := get(t, m, "/readyz"); w.Code != want || w.Body.String() != string(state)+"\n" {
			t.Errorf("/readyz of a VM that is %s is %d %s", state, w.Code, w.Body)
		}
		if w := get(t, m, "/healthz"); w.Code != 200 {
			t.Errorf("/healthz of a VM that is %s is %d", state, w.Code)
		}
	}
	if w := get(t, full(), "/"); w.Code != 404 {
		t.Errorf("/ is %d", w.Code)
	}
}

// A port that is taken costs no VM.
func TestListenElsewhere(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	first, err := Listen(t.Context(), "127.0.0.1:0", log)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen(t.Context(), first.Addr().String(), log)
	if err != nil {
		t.Fatal(err)
	}
	if host, port, _ := net.SplitHostPort(second.Addr().String()); host != "127.0.0.1" || second.Addr().String() == first.Addr().String() {
		t.Errorf("second listens at %s:%s", host, port)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, second, Handler(func() Source { return full() }, "1")) }()
	resp, err := http.Get("http://" + second.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "ok\n" {
		t.Errorf("body is %q", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if l, err := Listen(t.Context(), "no address", log); err == nil {
		l.Close()
		t.Error("listens at what is no address")
	}
}
