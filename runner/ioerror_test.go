package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner"
)

// A full file system pauses the VM, the status says so, and the guest goes on where it was when there is space again.
func TestDiskFull(t *testing.T) {
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
	addSector(t, c, filepath.Join(dir, "disk.img"), diskWriter, 16<<20)
	m := boot(t, c)

	status := m.waitFor("the guest is paused", func(s runner.Status) bool { return s.State == runner.Paused })
	if status.Reason != runner.ReasonIOError || status.IOError == nil {
		t.Fatalf("reason is %q, I/O error %v", status.Reason, status.IOError)
	}
	want := runner.IOError{Device: "disk0", Operation: "write", NoSpace: true, Reason: "No space left on device"}
	if *status.IOError != want {
		t.Errorf("I/O error is %+v, want %+v", *status.IOError, want)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if end, err := m.wait(); err != nil || end != runner.EndGuest {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndGuest)
	}
	m.shows("BD")
}
