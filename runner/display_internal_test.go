package runner

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// recorder is a QEMU that does everything that it is told, and remembers it.
type recorder struct {
	commands chan string
	// refuses says that everything is refused.
	refuses atomic.Bool
}

// newRecorder returns a monitor of a QEMU that remembers its commands as "name argument …", sorted by the arguments' names.
func newRecorder(t *testing.T) (*qmp.Monitor, *recorder) {
	t.Helper()
	file, ours, err := socketPair("qmp")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{commands: make(chan string, 100)}
	monitor := qmp.New(ours)
	t.Cleanup(func() {
		monitor.Disconnect()
		file.Close()
	})
	go func() {
		enc, dec := json.NewEncoder(file), json.NewDecoder(file)
		_ = enc.Encode(map[string]any{"QMP": map[string]any{"version": map[string]any{}}})
		for {
			var c struct {
				Execute   string            `json:"execute"`
				Arguments map[string]string `json:"arguments"`
				ID        uint64            `json:"id"`
			}
			if dec.Decode(&c) != nil {
				return
			}
			words := []string{c.Execute}
			for _, key := range []string{"password", "protocol", "time"} {
				if value, ok := c.Arguments[key]; ok {
					words = append(words, value)
				}
			}
			if c.Execute != "qmp_capabilities" {
				r.commands <- strings.Join(words, " ")
			}
			answer := map[string]any{"id": c.ID, "return": map[string]any{}}
			if r.refuses.Load() {
				answer = map[string]any{"id": c.ID, "error": map[string]any{"class": "GenericError", "desc": "no"}}
			}
			_ = enc.Encode(answer)
		}
	}()
	if err := monitor.Connect(); err != nil {
		t.Fatal(err)
	}
	return monitor, r
}

// taken returns what was told since the last call.
func (r *recorder) taken() []string {
	commands := []string{}
	for len(r.commands) > 0 {
		commands = append(commands, <-r.commands)
	}
	return commands
}

// A display gets a password and its expiry when their contents change, and only then.
func TestDisplayPassword(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "password")
	expiry := filepath.Join(dir, "expiry")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	monitor, qemu := newRecorder(t)
	log := slog.New(slog.DiscardHandler)
	rep := newReport(log, nil)
	d := &display{monitor: monitor, report: rep}
	live := &Live{Display: &Display{Protocol: "spice", PasswordFile: secret, ExpiryFile: expiry}}
	steps := []struct {
		name   string
		change func()
		want   []string
		serial int64
	}{
		{"First", func() { write(secret, "one\n") }, []string{"set_password one spice"}, 1},
		{"Same", func() { write(secret, "one") }, []string{}, 1},
		{"Expiry", func() { write(expiry, "now\n") }, []string{"expire_password spice now"}, 1},
		{"Again", func() {}, []string{}, 1},
		{"Other", func() { write(secret, "two") }, []string{"set_password two spice", "expire_password spice now"}, 2},
		{"Later", func() { write(expiry, "+60") }, []string{"expire_password spice +60"}, 2},
		{"NoExpiry", func() { os.Remove(expiry) }, []string{}, 2},
	}
	for _, step := range steps {
		step.change()
		if err := d.apply(t.Context(), live); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, qemu.taken()); diff != "" {
			t.Errorf("%s: commands (-want +got):\n%s", step.name, diff)
		}
		if status, _ := rep.status.get(); status.DisplayPasswordSerial != step.serial {
			t.Errorf("%s: serial is %d, want %d", step.name, status.DisplayPasswordSerial, step.serial)
		}
	}

	// What is refused counts as not done.
	qemu.refuses.Store(true)
	write(secret, "three")
	if err := d.apply(t.Context(), live); err == nil || strings.Contains(err.Error(), "three") {
		t.Errorf("error is %v", err)
	}
	qemu.taken()
	qemu.refuses.Store(false)
	if err := d.apply(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"set_password three spice"}, qemu.taken()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// Without a display there is no password to count.
func TestDisplayNone(t *testing.T) {
	monitor, qemu := newRecorder(t)
	rep := newReport(slog.New(slog.DiscardHandler), nil)
	d := &display{monitor: monitor, report: rep}
	if err := d.apply(t.Context(), &Live{}); err != nil {
		t.Fatal(err)
	}
	if status, _ := rep.status.get(); status.DisplayPasswordSerial != -1 || len(qemu.taken()) != 0 {
		t.Errorf("serial is %d, want -1", status.DisplayPasswordSerial)
	}
}

func TestReadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for _, content := range []string{" secret ", " secret \n", " secret \r\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readLine(path); err != nil || got != " secret " {
			t.Errorf("line of %q is %q (%v)", content, got, err)
		}
	}
}
