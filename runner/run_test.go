package runner_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// loadConfig reads a config of the corpus with its directories below a directory of the test's.
func loadConfig(t *testing.T, name string) *runner.Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "config", "1.0", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := runner.ParseConfig(bytes.ReplaceAll(data, []byte("/DIR"), []byte(t.TempDir())))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// screen is what the guest has written, for a test to wait for.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen chan struct{}
}

func newScreen(want string) *screen {
	return &screen{want: want, seen: make(chan struct{})}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := strings.Contains(s.text.String(), s.want)
	s.text.Write(b)
	if !before && strings.Contains(s.text.String(), s.want) {
		close(s.seen)
	}
	return len(b), nil
}

// SeaBIOS says this when it has found nothing to boot from. It does not listen to ACPI's power button.
const biosDone = "No bootable device"

func TestRunForced(t *testing.T) {
	out := newScreen(biosDone)
	var states []runner.State
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		<-out.seen
		cancel()
	}()
	end, err := runner.Run(ctx, loadConfig(t, "minimal"), runner.Options{
		ConsoleOut: out,
		Observe:    func(s runner.State) { states = append(states, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if end != runner.EndForced {
		t.Errorf("end is %q, want %q", end, runner.EndForced)
	}
	want := []runner.State{runner.Starting, runner.Booting, runner.Terminating, runner.Stopped}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	select {
	case <-out.seen:
	default:
		t.Errorf("console has no %q:\n%s", biosDone, out.text.String())
	}
}
