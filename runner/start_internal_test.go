package runner

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readConfig reads a config of the corpus, of format 1.0 if it names no other, for a directory.
func readConfig(t *testing.T, name, dir string) *Config {
	t.Helper()
	if !strings.Contains(name, "/") {
		name = "1.0/" + name
	}
	data, err := os.ReadFile(filepath.Join("testdata", "config", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(bytes.ReplaceAll(data, []byte("/DIR"), []byte(dir)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeInputs makes the files that the full config refers to.
func writeInputs(t *testing.T, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"cloud-init/meta-data": "instance-id: v1\n",
		"cloud-init/user-data": "#cloud-config\n",
		"password":             "secret\n",
		"expiry":               "never\n",
		"cd.iso":               strings.Repeat("\x00", 2048),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// startVM starts a VM up to cont, and ends it with the test. What it logs at warning level or above goes to the buffer.
func startVM(t *testing.T, c *Config) (*vm, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	log := slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	v := newVM(c, Options{Logger: log})
	t.Cleanup(v.cleanup)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := v.start(ctx); err != nil {
		t.Fatal(err)
	}
	return v, &warnings
}

// query runs a QMP command that has to work.
func query[T any](t *testing.T, v *vm, command string, args any) T {
	t.Helper()
	var result T
	if err := v.monitor.Execute(t.Context(), command, args, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// A VM with everything is what its config says when its guest begins to run.
func TestStartFull(t *testing.T) {
	for _, format := range []string{"1.0", "1.1"} {
		t.Run(format, func(t *testing.T) { testStartFull(t, format+"/full") })
	}
}

func testStartFull(t *testing.T, name string) {
	t.Helper()
	dir := t.TempDir()
	writeInputs(t, dir)
	v, warnings := startVM(t, readConfig(t, name, dir))
	if warnings.Len() != 0 {
		t.Errorf("warnings:\n%s", warnings)
	}

	plugged := 0
	for _, slot := range query[[]cpuSlot](t, v, "query-hotpluggable-cpus", nil) {
		if slot.Path != "" {
			plugged++
		}
	}
	if plugged != 3 {
		t.Errorf("%d CPUs are plugged in, want 3", plugged)
	}
	type blockInfo struct {
		QDev     string `json:"qdev"`
		TrayOpen bool   `json:"tray_open"`
		Inserted *struct {
			NodeName string `json:"node-name"`
		} `json:"inserted"`
	}
	media := make(map[string]string)
	for _, b := range query[[]blockInfo](t, v, "query-block", nil) {
		if !strings.HasPrefix(b.QDev, "cd") {
			continue
		}
		if b.TrayOpen {
			t.Errorf("tray of %s is open", b.QDev)
		}
		media[b.QDev] = ""
		if b.Inserted != nil {
			media[b.QDev] = b.Inserted.NodeName
		}
	}
	if diff := cmp.Diff(map[string]string{"cd0": "cd0-medium-1", "cd1": ""}, media); diff != "" {
		t.Errorf("media (-want +got):\n%s", diff)
	}
	uuid := query[map[string]string](t, v, "query-uuid", nil)["UUID"]
	if want := "5f2c9f0a-6f0e-4c8e-9d0b-0d8f2f3c4b5a"; uuid != want {
		t.Errorf("UUID is %s, want %s", uuid, want)
	}
	if status := query[map[string]any](t, v, "query-status", nil)["status"]; status != "running" {
		t.Errorf("guest is %v, want running", status)
	}
	image, err := os.Stat(filepath.Join(dir, "data", "disk.img"))
	if err != nil || image.Size() != 64<<20 || image.Mode().Perm() != 0o600 {
		t.Errorf("image is %v (%v)", image, err)
	}
	v.cleanup()
	if _, err := os.Stat(filepath.Join(dir, "run", "cloud-init.img")); !os.IsNotExist(err) {
		t.Errorf("cloud-init disk is still there: %v", err)
	}
}

// What is new in 1.1 is there when the guest begins to run, too.
func TestStartLive(t *testing.T) {
	dir := t.TempDir()
	writeInputs(t, dir)
	v, _ := startVM(t, readConfig(t, "1.1/full", dir))
	type throttled struct {
		QDev     string `json:"qdev"`
		Inserted *struct {
			BPS, IOPS int64
			Max       int64 `json:"iops_max"`
		} `json:"inserted"`
	}
	for _, b := range query[[]throttled](t, v, "query-block", nil) {
		if deviceID(b.QDev) == "disk-0" && (b.Inserted.BPS != 104857600 || b.Inserted.IOPS != 1000 || b.Inserted.Max != 2000) {
			t.Errorf("limits are %+v", *b.Inserted)
		}
	}
	requested := query[int64](t, v, "qom-get", map[string]string{"path": "/machine/peripheral/vmem0", "property": "requested-size"})
	if requested != 128<<20 {
		t.Errorf("virtio-mem is asked for %d bytes", requested)
	}
	if got := v.values.Resolve["firmware"]["code"]; got == "" {
		t.Error("no firmware was found")
	}
	status, _ := v.report.status.get()
	want := []PendingChange{{Field: "memory.vmem0", Waiting: true, Message: "the guest has taken 0 of 134217728 bytes"}}
	if diff := cmp.Diff(want, status.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if status.Reset != "2026-01-01T00:00:00Z" || status.Resets != 0 {
		t.Errorf("reset is %q, done %d times", status.Reset, status.Resets)
	}
}

// What cannot be configured is reported, and the guest runs all the same.
func TestStartWithout(t *testing.T) {
	dir := t.TempDir()
	c := readConfig(t, "minimal", dir)
	c.Live.CurrentCPUs, c.Live.CurrentRAM = 2, 1<<20
	c.Live.CDROMs = map[string]map[string]any{"cd7": {"driver": "null-co"}}
	c.Live.Display = &Display{Protocol: "vnc", PasswordFile: filepath.Join(dir, "none")}
	v, warnings := startVM(t, c)
	for _, want := range []string{"currentCpus", "currentRam", "cdroms.cd7", "display: password"} {
		if !strings.Contains(warnings.String(), want) {
			t.Errorf("no warning about %s:\n%s", want, warnings)
		}
	}
	if status := query[map[string]any](t, v, "query-status", nil)["status"]; status != "running" {
		t.Errorf("guest is %v, want running", status)
	}
}

// The machine type is the same one at each start, even where the config has an alias for the newest.
func TestMachineTypeKept(t *testing.T) {
	dir := t.TempDir()
	v, _ := startVM(t, readConfig(t, "minimal", dir))
	if got := v.values.Resolve["machine"]["type"]; got != "q35" {
		t.Fatalf("first start takes %s, want q35", got)
	}
	v.keepChoices(t.Context())
	kind := query[string](t, v, "qom-get", map[string]string{"path": "/machine", "property": "type"})
	v.cleanup()
	v, warnings := startVM(t, readConfig(t, "minimal", dir))
	if got := v.values.Resolve["machine"]["type"] + "-machine"; got != kind || got == "q35-machine" {
		t.Errorf("second start takes %s, the first had %s", got, kind)
	}
	if warnings.Len() != 0 || v.machines != nil {
		t.Errorf("the second start had to ask QEMU for machine types; warnings:\n%s", warnings)
	}
}

// The end of the TPM is reported; the guest goes on.
func TestTPMLost(t *testing.T) {
	v, warnings := startVM(t, readConfig(t, "tpm", t.TempDir()))
	v.kill(v.tpm)
	v.watchTPM(t.Context())
	if !strings.Contains(warnings.String(), "TPM emulator ended") {
		t.Errorf("end of swtpm is not reported:\n%s", warnings)
	}
	if status := query[map[string]any](t, v, "query-status", nil)["status"]; status != "running" {
		t.Errorf("guest is %v, want running", status)
	}
}

// A VM whose monitor is lost runs on, and can still be ended.
func TestMonitorLost(t *testing.T) {
	c := readConfig(t, "minimal", t.TempDir())
	c.Live.PowerdownTimeout = 0
	v, warnings := startVM(t, c)
	v.monitor.Disconnect()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	v.monitorLost(short)
	if !strings.Contains(warnings.String(), "lost QEMU's monitor") {
		t.Errorf("loss is not reported:\n%s", warnings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, err := v.supervise(ctx, cancel)
	if err != nil || end != EndForced {
		t.Errorf("end is %q, error %v, want %q", end, err, EndForced)
	}
}
