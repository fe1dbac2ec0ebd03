package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
)

// The exit codes are those that the help lists.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	option := func(name string) func(map[string]any) {
		return func(c map[string]any) {
			boot := c["boot"].(map[string]any)
			boot["args"] = append(boot["args"].([]any), map[string]any{"option": name})
		}
	}
	cases := map[string]struct {
		reason string
		guest  []byte
		change func(map[string]any)
		args   []string
		// act is done when the guest runs.
		act  func(*testing.T, *process)
		code int
		said string
	}{
		"GuestShutsDown": {
			reason: "Without a cluster there is nobody to tell that the VM shall stay stopped.",
			guest:  guestPowersOff, code: 0, said: "no cluster",
		},
		"PowerButton": {
			reason: "A guest that shuts down when it is asked to has done what it should.",
			guest:  guestWaits, act: func(t *testing.T, r *process) { r.signal(t, syscall.SIGTERM) },
			code: 0, said: "stop is requested",
		},
		"TimedOut": {
			reason: "A guest that does not is switched off, and that is to be seen.",
			guest:  guestHalts, change: live("powerdownTimeout", 1),
			act:  func(t *testing.T, r *process) { r.signal(t, syscall.SIGTERM) },
			code: 4, said: "Terminating",
		},
		"Twice": {
			reason: "SIGINT after a stop was requested does not wait for the guest.",
			guest:  guestHalts, change: live("powerdownTimeout", 3600),
			act: func(t *testing.T, r *process) {
				r.signal(t, syscall.SIGTERM)
				r.says(t, "VM is Terminating")
				r.signal(t, syscall.SIGINT)
			},
			code: 4, said: "stop is requested",
		},
		"QEMUKilled": {
			reason: "kubelet has to see that QEMU is gone.",
			guest:  guestHalts, act: func(t *testing.T, r *process) { _ = unix.Kill(qemuOf(t, r), unix.SIGKILL) },
			code: 5, said: "QEMU ended by itself",
		},
		"Refused": {
			reason: "What only QEMU can tell, it tells.",
			guest:  guestHalts, change: option("no-such-option"), code: 3, said: "no-such-option",
		},
		"OtherFormat": {
			reason: "A config of another format is none of this runner's.",
			guest:  guestHalts, change: func(c map[string]any) { c["format"] = "2.0" }, code: 1, said: "format",
		},
		"NoConfig": {
			reason: "Without a config there is nothing to run.",
			guest:  guestHalts, args: []string{"--config", "not-there.json"}, code: 1, said: "not-there.json",
		},
		"UnknownFlag":  {reason: "A wrong command line.", guest: guestHalts, args: []string{"--speed"}, code: 2, said: "--help"},
		"Argument":     {reason: "A wrong command line.", guest: guestHalts, args: []string{"vm.yaml"}, code: 2, said: "vm.yaml"},
		"UnknownLevel": {reason: "A wrong command line.", guest: guestHalts, args: []string{"--log-level", "loud"}, code: 2, said: "loud"},
		"Help":         {reason: "The help has the exit codes.", guest: guestHalts, args: []string{"--help"}, code: 0, said: "Exit codes:"},
		"Version":      {reason: "The version has the format.", guest: guestHalts, args: []string{"--version"}, code: 0, said: "config format 1."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newPod(t, tc.guest, tc.change).start(t, tc.args...)
			if tc.act != nil {
				r.says(t, "VM is Booting")
				tc.act(t, r)
			}
			r.ends(t, tc.code)
			if !strings.Contains(r.out.String(), tc.said) {
				t.Errorf("%s\nrunner does not say %q", tc.reason, tc.said)
			}
		})
	}
}

// qemuOf is the process id of a runner's QEMU.
func qemuOf(t *testing.T, r *process) int {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(r.cmd.Process.Pid), "qemu").Output()
	if err != nil {
		t.Fatalf("find QEMU: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// The environment says what the command line does not, and the log is JSON of a known form.
func TestEnvironmentAndLog(t *testing.T) {
	t.Parallel()
	p := newPod(t, guestPowersOff, nil)
	p.env = []string{"CUVEE_LOG_LEVEL=debug", "CUVEE_LISTEN=no address"}
	r := p.start(t)
	r.ends(t, 0)
	debug := false
	for line := range strings.Lines(r.out.String()) {
		var record struct {
			Timestamp time.Time
			Level     string
			Msg       string
			VM        string
			Namespace string
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		if err := decoder.Decode(&record); err != nil || record.Timestamp.IsZero() || record.Msg == "" {
			t.Errorf("not a record: %v: %s", err, line)
		}
		debug = debug || record.Level == "DEBUG"
		if strings.HasPrefix(record.Msg, "VM is ") && (record.VM != "web" || record.Namespace != "vms") {
			t.Errorf("record is about %s/%s: %s", record.Namespace, record.VM, line)
		}
		if strings.Count(line, `"vm":`) > 1 || strings.Count(line, `"namespace":`) > 1 {
			t.Errorf("twice the same key: %s", line)
		}
	}
	if !debug {
		t.Error("CUVEE_LOG_LEVEL is not heard")
	}
}

// The config is followed through kubelet's swap of symlinks. A broken one is logged, and the last good one stays.
func TestConfigIsFollowed(t *testing.T) {
	t.Parallel()
	p := newPod(t, guestHalts, live("powerdownTimeout", 3600))
	r := p.start(t)
	r.says(t, "VM is Booting")
	p.mount(t, []byte(`{"format": "1.1", `))
	r.says(t, "new config is left out")
	p.configure(t, live("powerdownTimeout", 0))
	// Only the new config lets the guest be switched off at once.
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 4)
}

// Without a cluster a VM whose guest shuts down is started again, unless it shall stop.
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	p := newPod(t, guestPowersOff, live("guestShutdownStops", false))
	r := p.start(t)
	r.says(t, "VM is Stopped")
	p.configure(t, live("guestShutdownStops", true))
	r.ends(t, 0)
	if n := strings.Count(r.out.String(), "VM is Booting"); n != 2 {
		t.Errorf("guest was started %d times, want 2", n)
	}
}

// The endpoints tell about the real QEMU.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	r := newPod(t, guestWaits, nil).start(t)
	var served struct{ Address string }
	if err := json.Unmarshal([]byte(r.says(t, "serving metrics")), &served); err != nil {
		t.Fatal(err)
	}
	r.says(t, "VM is Booting")
	if code, body := fetch(t, served.Address, "healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz is %d %s", code, body)
	}
	if code, body := fetch(t, served.Address, "readyz"); code != 200 || body != "Booting\n" {
		t.Errorf("/readyz is %d %s", code, body)
	}
	missing := []string{"first look"}
	for deadline := time.Now().Add(patience); len(missing) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("still zero, or not there: %v", missing)
		}
		missing = zeroes(t, served.Address, []string{
			"cuvee_vm_cpus", "cuvee_vm_memory_bytes", "cuvee_qemu_cpu_seconds_total", "cuvee_qemu_resident_memory_bytes",
			"cuvee_disk_read_bytes_total", "cuvee_qmp_reply_seconds",
		})
	}
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
}

// zeroes are those of the metrics that are not there once, or are zero.
func zeroes(t *testing.T, address string, names []string) []string {
	t.Helper()
	code, body := fetch(t, address, "metrics")
	if code != 200 {
		t.Fatalf("/metrics is %d", code)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		m := families[name].GetMetric()
		return len(m) == 1 && m[0].GetGauge().GetValue()+m[0].GetCounter().GetValue()+float64(m[0].GetHistogram().GetSampleCount()) > 0
	})
}

func fetch(t *testing.T, address, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A standalone config may be a plain file that is written anew.
func TestPlainFile(t *testing.T) {
	t.Parallel()
	p := newPod(t, guestHalts, live("powerdownTimeout", 3600))
	path := filepath.Join(p.dir, "plain.json")
	put := func(timeout string) {
		data := bytes.ReplaceAll(readFile(t, "testdata/config.json"), []byte("DIR"), []byte(p.dir))
		p.write(t, "plain.json", bytes.ReplaceAll(data, []byte(`"powerdownTimeout": 60`), []byte(`"powerdownTimeout": `+timeout)))
	}
	put("3600")
	r := p.start(t, "-c", path)
	r.says(t, "VM is Booting")
	r.signal(t, syscall.SIGTERM)
	r.says(t, "VM is Terminating")
	put("0")
	r.ends(t, 4)
}
