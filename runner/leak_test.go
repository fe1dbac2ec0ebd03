package runner_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// A run leaves neither open files, nor goroutines, nor files behind, so that a VM can be run again and again.
func TestRunLeavesNothing(t *testing.T) {
	c := loadConfig(t, "tpm")
	addGuest(t, c, guestPowersOff)
	run := func() {
		if end, err := runner.Run(t.Context(), c, runner.Options{}); err != nil || end != runner.EndGuest {
			t.Fatalf("end is %q, error %v", end, err)
		}
	}
	// The first run opens what the process keeps for all, such as the poller.
	run()
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 5 {
		run()
	}
	if left := openFiles(t); left > files {
		t.Errorf("%d files are open, were %d", left, files)
	}
	// A goroutine that has nothing more to do may take a moment to be gone.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines run, were %d", runtime.NumGoroutine(), goroutines)
		}
	}
	if left, err := os.ReadDir(c.Boot.RuntimeDir); err != nil || len(left) != 0 {
		t.Errorf("runtime directory still has %v (%v)", left, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}
