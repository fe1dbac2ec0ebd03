package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

func inState(want runner.State) func(runner.Status) bool {
	return func(s runner.Status) bool { return s.State == want }
}

// forState is a condition for a state that is there for a reason.
func forState(want runner.State, reason string) func(runner.Status) bool {
	return func(s runner.Status) bool { return s.State == want && s.Reason == reason }
}

// A pause leads back to where the VM was, unless the guest was reset meanwhile.
func TestPaused(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestHalts)
	m := boot(t, c)
	m.shows("Booting from")
	pause := func() {
		m.execute("stop", nil, nil)
		m.waitFor("the VM is paused", forState(runner.Paused, runner.ReasonPaused))
	}
	pause()
	m.execute("cont", nil, nil)
	m.waitFor("it goes on", forState(runner.Booting, runner.ReasonResumed))
	m.vm.AgentAnswered()
	m.waitFor("it is booted", inState(runner.Booted))
	pause()
	m.execute("cont", nil, nil)
	m.waitFor("it goes on", forState(runner.Booted, runner.ReasonResumed))
	pause()
	m.execute("system_reset", nil, nil)
	m.execute("cont", nil, nil)
	m.waitFor("it goes on, and boots", forState(runner.Booting, runner.ReasonResumed))
	m.vm.AgentAnswered()
	m.execute("system_reset", nil, nil)
	m.waitFor("it boots again", forState(runner.Booting, runner.ReasonReset))
}

// A stop is taken in each state.
func TestStopped(t *testing.T) {
	cases := map[string]struct {
		reason string
		// before brings a VM whose guest listens to the power button to the state.
		before func(m *machine)
		states []runner.State
	}{
		"Booting": {
			reason: "A guest that listens shuts down.",
			before: func(*machine) {},
			states: []runner.State{runner.Starting, runner.Booting, runner.Terminating, runner.Stopped},
		},
		"Booted": {
			reason: "Also when its agent has answered.",
			before: func(m *machine) { m.vm.AgentAnswered() },
			states: []runner.State{runner.Starting, runner.Booting, runner.Booted, runner.Terminating, runner.Stopped},
		},
		"Paused": {
			reason: "A guest that was paused has to run to shut down.",
			before: func(m *machine) {
				m.execute("stop", nil, nil)
				m.waitFor("it is paused", inState(runner.Paused))
			},
			states: []runner.State{runner.Starting, runner.Booting, runner.Paused, runner.Terminating, runner.Stopped},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := loadConfig(t, "minimal")
			addGuest(t, c, guestWaits)
			c.Live.PowerdownTimeout = 3600
			var states []runner.State
			m := launch(t, c, func(s runner.State) { states = append(states, s) })
			m.shows("BW")
			tc.before(m)
			m.stop()
			if end, err := m.wait(); err != nil || end != runner.EndRequested {
				t.Errorf("%s\nend is %q, error %v", tc.reason, end, err)
			}
			if diff := cmp.Diff(tc.states, states); diff != "" {
				t.Errorf("%s\nstates (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// The power button is pressed again and again, and a new timeout counts while the guest is waited for.
func TestPowerdownTimeoutChanges(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestHalts)
	c.Live.PowerdownTimeout = 3600
	m := boot(t, c)
	events := m.vm.Subscribe()
	m.stop()
	for pressed := 0; pressed < 3; {
		if e := <-events; e.Event == "POWERDOWN" {
			pressed++
		}
	}
	m.change(func(c *runner.Config) { c.Live.PowerdownTimeout = 0 })
	if end, err := m.wait(); err != nil || end != runner.EndForced {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndForced)
	}
}

// A config that comes while the VM is prepared is followed as soon as there is something to follow it.
func TestConfigWhileStarting(t *testing.T) {
	c := withCPUs(t, cpuReleaser)
	c.Live.Reset = "first"
	var m *machine
	ready := make(chan struct{})
	m = launch(t, c, func(s runner.State) {
		if s == runner.Starting {
			<-ready
			m.change(func(c *runner.Config) { c.Live.CurrentCPUs, c.Live.Reset = 3, "second" })
		}
	})
	close(ready)
	m.waitFor("there are three CPUs", complies(3))
	m.waitFor("the reset is done", func(s runner.Status) bool { return s.Reset == "second" && s.Resets == 1 })
}

// A failure is the last state, with what was said.
func TestFailed(t *testing.T) {
	c := loadConfig(t, "minimal")
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: map[string]any{"driver": "none-such"}})
	var states []runner.State
	m := launch(t, c, func(s runner.State) { states = append(states, s) })
	_, err := m.wait()
	status, _ := m.vm.Status()
	if err == nil || status.State != runner.Failed || status.Message != err.Error() || status.PID != 0 {
		t.Errorf("error is %v, status %+v", err, status)
	}
	if diff := cmp.Diff([]runner.State{runner.Starting, runner.Failed}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// Guests that tell QEMU that something is wrong with them, by ports of pvpanic and of the watchdog ib700.
var (
	panics = []byte{
		0xba, 0x05, 0x05, // mov $0x505,%dx
		0xb0, 0x01, // mov $0x1,%al
		0xee,       // out %al,(%dx)
		0xf4,       // hlt
		0xeb, 0xfd, // jmp 6
	}
	expires = []byte{
		0xba, 0x43, 0x04, // mov $0x443,%dx
		0xb0, 0x0f, // mov $0xf,%al
		0xee,       // out %al,(%dx)
		0xf4,       // hlt
		0xeb, 0xfd, // jmp 6
	}
)

func withDevice(t *testing.T, code []byte, driver, action string) *machine {
	t.Helper()
	c := loadConfig(t, "minimal")
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: map[string]any{"driver": driver}})
	if action != "" {
		name := map[string]string{"pvpanic": "panic", "ib700": "watchdog"}[driver]
		c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "action", Keys: map[string]any{name: action}})
	}
	addSector(t, c, filepath.Join(t.TempDir(), "guest.img"), code, 1<<20)
	return launch(t, c, nil)
}

// A guest whose kernel panics has not shut down.
func TestGuestPanics(t *testing.T) {
	m := withDevice(t, panics, "pvpanic", "")
	end, err := m.wait()
	if err != nil || end != runner.EndPanicked || runner.ExitCode(end, err) != runner.ExitPanicked {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndPanicked)
	}
	if status, _ := m.vm.Status(); status.State != runner.Stopped || status.Reason != runner.ReasonPanicked || status.GuestError == "" {
		t.Errorf("status is %+v", status)
	}
}

// Where the config says so, QEMU keeps such a guest for somebody to look at.
func TestGuestPaused(t *testing.T) {
	withDevice(t, panics, "pvpanic", "pause").waitFor("it is paused", forState(runner.Paused, runner.ReasonPanicked))
	withDevice(t, expires, "ib700", "pause").waitFor("it is paused", forState(runner.Paused, runner.ReasonWatchdog))
}

// A watchdog that resets the guest is told, and the VM goes on.
func TestWatchdogResets(t *testing.T) {
	m := withDevice(t, expires, "ib700", "reset")
	status := m.waitFor("the watchdog has expired", func(s runner.Status) bool { return s.Resets > 0 || s.Reboots > 0 })
	if status.State != runner.Booting || status.GuestError == "" {
		t.Errorf("status is %+v", status)
	}
}

// What a VM costs is known while it runs, and only then.
func TestMetrics(t *testing.T) {
	m, _ := keptTray(t)
	metrics, err := m.vm.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status, _ := m.vm.Status()
	if metrics.CPUTime <= 0 || metrics.RSS < 1<<20 || metrics.RAM != status.RAM || metrics.RAM != 64*mib || metrics.QMP.Count == 0 {
		t.Errorf("metrics are %+v", metrics)
	}
	if d := metrics.Disks["disk0"]; d.ReadBytes < 512 || d.ReadOperations == 0 || d.ReadTime <= 0 {
		t.Errorf("disk's metrics are %+v, all disks %+v", d, metrics.Disks)
	}
	m.force()
	if end, err := m.wait(); err != nil || end != runner.EndForced {
		t.Errorf("end is %q, error %v", end, err)
	}
	if _, err := m.vm.Metrics(t.Context()); !errors.Is(err, runner.ErrNotRunning) {
		t.Errorf("error is %v, want ErrNotRunning", err)
	}
}

// Everything that happens is told in order, and the stream ends with the VM.
func TestEvents(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestPowersOff)
	c.Live.CDROMs = map[string]map[string]any{"cd7": nil, "cd8": {"driver": "null-co"}}
	m := launch(t, c, nil)
	var reasons []string
	for e := range m.vm.Events() {
		reasons = append(reasons, e.Reason)
	}
	want := []string{runner.ReasonStarting, "LiveChangeRefused", runner.ReasonStarted, string(runner.EndGuest)}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The config file is followed as kubelet replaces it: by swapping a symlink to its directory.
func TestFollowConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(version, format string) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		data := `{"format": "` + format + `", "revision": "` + version + `"}`
		if err := os.WriteFile(filepath.Join(dir, version, "config.json"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "..data")
		if err := os.Symlink(version, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	write("one", runner.Format)
	path := filepath.Join(dir, "config.json")
	if err := os.Symlink("..data/config.json", path); err != nil {
		t.Fatal(err)
	}
	first, configs, err := runner.FollowFast(t.Context(), path)
	if err != nil || first.Revision != "one" {
		t.Fatalf("first config is %+v, error %v", first, err)
	}
	write("two", "99.0")
	write("three", runner.Format)
	if c := <-configs; c.Revision != "three" {
		t.Errorf("next config is %q, want three", c.Revision)
	}
}
