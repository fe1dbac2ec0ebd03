package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner"
)

// A full file system pauses the VM, the status says so, and the guest goes on where it was when there is space again, also
// if it is to shut down meanwhile.
func TestDiskFull(t *testing.T) {
	t.Run("GoesOn", func(t *testing.T) { testDiskFull(t, runner.EndGuest) })
	t.Run("Terminating", func(t *testing.T) { testDiskFull(t, runner.EndRequested) })
}

func testDiskFull(t *testing.T, want runner.End) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=7m"); err != nil {
		t.Skipf("cannot mount a small file system (that takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c := loadConfig(t, "minimal")
	c.Live.PowerdownTimeout = 3600
	addSector(t, c, filepath.Join(dir, "disk.img"), diskWriter, 16<<20)
	paused := 0
	m := launch(t, c, func(s runner.State) {
		if s == runner.Paused {
			paused++
		}
	})

	status := m.waitFor("the guest is paused", func(s runner.Status) bool { return s.State == runner.Paused })
	if status.Reason != runner.ReasonIOError || status.IOError == nil {
		t.Fatalf("reason is %q, I/O error %v", status.Reason, status.IOError)
	}
	fault := runner.IOError{Device: "disk0", Operation: "write", NoSpace: true, Reason: "No space left on device"}
	if *status.IOError != fault {
		t.Errorf("I/O error is %+v, want %+v", *status.IOError, fault)
	}
	if want == runner.EndRequested {
		m.stop()
		m.waitFor("it is terminating", inState(runner.Terminating))
	}
	// The guest is let go on again and again, without the VM changing its state each time.
	events := m.vm.Subscribe()
	for tries := 0; tries < 3; {
		if e := <-events; e.Event == "RESUME" {
			tries++
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if end, err := m.wait(); err != nil || end != want {
		t.Errorf("end is %q, error %v, want %q", end, err, want)
	}
	m.shows("BD")
	if paused != 1 {
		t.Errorf("VM was paused %d times", paused)
	}
}

// failing gives the VM a disk of which the first write fails, with what is to be done then.
func failing(t *testing.T, action string) *machine {
	t.Helper()
	c := loadConfig(t, "minimal")
	path := filepath.Join(t.TempDir(), "disk.img")
	addSector(t, c, path, diskWriter, 16<<20)
	last := len(c.Boot.Args) - 1
	c.Boot.Args[last].JSON["werror"] = action
	c.Boot.Args[last-1].JSON["file"] = map[string]any{
		"driver": "blkdebug", "image": map[string]any{"driver": "file", "filename": path},
		"inject-error": []any{map[string]any{"event": "none", "iotype": "write", "errno": 5, "once": true}},
	}
	return boot(t, c)
}

// Where the config says so, any error pauses the VM, and what failed is tried again.
func TestDiskFails(t *testing.T) {
	m := failing(t, "stop")
	status := m.waitFor("the guest is paused", inState(runner.Paused))
	want := runner.IOError{Device: "disk0", Operation: "write", Reason: "Input/output error"}
	if status.IOError == nil || *status.IOError != want {
		t.Errorf("I/O error is %+v, want %+v", status.IOError, want)
	}
	if end, err := m.wait(); err != nil || end != runner.EndGuest {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndGuest)
	}
	m.shows("BD")
}

// An error that the guest gets is told, and pauses nothing.
func TestDiskErrorReported(t *testing.T) {
	m := failing(t, "report")
	if end, err := m.wait(); err != nil || end != runner.EndGuest {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndGuest)
	}
	m.shows("BE")
	var told []string
	for e := range m.vm.Events() {
		if e.Reason == runner.ReasonIOError {
			told = append(told, e.Message)
		}
	}
	if diff := cmp.Diff([]string{"disk disk0: write: Input/output error"}, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
