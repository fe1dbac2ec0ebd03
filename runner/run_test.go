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

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// biosDone is what SeaBIOS says when it has found nothing to boot from. It does not listen to the power button.
const biosDone = "No bootable device"

// runTime is far more than any VM of these tests takes; it only ends those that hang.
const runTime = time.Minute

func TestRunEnds(t *testing.T) {
	booted := []runner.State{runner.Starting, runner.Booting, runner.Stopped}
	asked := []runner.State{runner.Starting, runner.Booting, runner.Terminating, runner.Stopped}
	cases := map[string]struct {
		reason string
		guest  byte
		// stop is what the guest writes when the VM is asked to stop.
		stop   string
		end    runner.End
		states []runner.State
		said   string
	}{
		"GuestShutdown": {
			reason: "A guest that shuts down ends the run.",
			guest:  guestPowersOff, end: runner.EndGuest, states: booted, said: "BO",
		},
		"Reboot": {
			reason: "A guest that reboots keeps its QEMU.",
			guest:  guestReboots, end: runner.EndGuest, states: booted, said: "BO",
		},
		"Requested": {
			reason: "A guest that listens to the power button shuts down in time.",
			guest:  guestWaits, stop: "BW", end: runner.EndRequested, states: asked, said: "BWO",
		},
		"TimedOut": {
			reason: "A guest that does not listen is ended after the timeout.",
			stop:   biosDone, end: runner.EndForced, states: asked, said: biosDone,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := loadConfig(t, "minimal")
			if tc.guest != 0 {
				addGuest(t, c, tc.guest)
				c.Live.PowerdownTimeout = 30
			}
			ctx, cancel := context.WithTimeout(t.Context(), runTime)
			defer cancel()
			out := newScreen(tc.stop)
			if tc.stop != "" {
				go func() {
					<-out.seen
					cancel()
				}()
			}
			var states []runner.State
			end, err := runner.Run(ctx, c, runner.Options{
				ConsoleOut: out,
				Observe:    func(s runner.State) { states = append(states, s) },
			})
			if err != nil {
				t.Fatalf("%s\nRun: %v", tc.reason, err)
			}
			if end != tc.end {
				t.Errorf("%s\nend is %q, want %q", tc.reason, end, tc.end)
			}
			if diff := cmp.Diff(tc.states, states); diff != "" {
				t.Errorf("%s\nstates (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(out.String(), tc.said) {
				t.Errorf("%s\nconsole has no %q:\n%.20000s", tc.reason, tc.said, out)
			}
		})
	}
}

// A second Ctrl-C does not wait for the guest.
func TestRunForce(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestHalts)
	c.Live.PowerdownTimeout = 3600
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	force := make(chan struct{})
	end, err := runner.Run(ctx, c, runner.Options{
		Force: force,
		Observe: func(s runner.State) {
			switch s {
			case runner.Booting:
				cancel()
			case runner.Terminating:
				close(force)
			}
		},
	})
	if err != nil || end != runner.EndForced {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndForced)
	}
}

// A stop that comes before the guest was started leaves nothing to power down.
func TestRunCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, err := runner.Run(ctx, loadConfig(t, "minimal"), runner.Options{})
	if err != nil || end != runner.EndCalledOff {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndCalledOff)
	}
}

// stuck is a writer that takes nothing.
type stuck struct{ free <-chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.free
	return len(b), nil
}

// A reader of the console that stands still does not hold up the guest.
func TestConsoleStuck(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestFloods)
	free := make(chan struct{})
	defer close(free)
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	end, err := runner.Run(ctx, c, runner.Options{ConsoleOut: stuck{free}})
	if err != nil || end != runner.EndGuest {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndGuest)
	}
}
