package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// TestConditionsOfLife follows a VM through its life. A condition's time is that of its last change of status, whatever becomes of
// its reason.
func TestConditionsOfLife(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	type line struct{ Running, Booted, Paused, Changes string }
	of := func(c condition) string {
		when, _ := time.Parse(time.RFC3339, c.LastTransitionTime)
		return c.Status + " " + c.Reason + " " + when.Sub(begin).String()
	}
	steps := []struct {
		reason string
		status runner.Status
		want   line
	}{
		{
			"a runner that begins", runner.Status{State: runner.Starting, Since: at(0)},
			line{"False RunnerStarted 0s", "False RunnerStarted 0s", "False NotPaused 0s", "True AsSpecified 0s"},
		},
		{
			"the guest runs", runner.Status{State: runner.Booting, Since: at(1)},
			line{"True VmStarted 1s", "False VmStarted 0s", "False NotPaused 0s", "True AsSpecified 0s"},
		},
		{
			"its agent has answered", runner.Status{State: runner.Booted, Since: at(2)},
			line{"True VmBooted 1s", "True VmBooted 2s", "False NotPaused 0s", "True AsSpecified 0s"},
		},
		{
			"its disk is full; it still is a booted guest",
			runner.Status{State: runner.Paused, Reason: "IOError", Since: at(3), IOError: &runner.IOError{Device: "disk0", Operation: "write", NoSpace: true}},
			line{"True VmPaused 1s", "True VmPaused 2s", "True NoSpace 3s", "True AsSpecified 0s"},
		},
		{
			"it stays paused, for another reason", runner.Status{State: runner.Paused, Reason: runner.ReasonPaused, Since: at(4)},
			line{"True VmPaused 1s", "True VmPaused 2s", "True VmPaused 3s", "True AsSpecified 0s"},
		},
		{
			"it goes on", runner.Status{State: runner.Booted, Since: at(5)},
			line{"True VmBooted 1s", "True VmBooted 2s", "False NotPaused 5s", "True AsSpecified 0s"},
		},
		{
			"it keeps a CPU", runner.Status{State: runner.Booted, Since: at(5), Pending: []runner.PendingChange{{Field: "currentCpus", Waiting: true}}},
			line{"True VmBooted 1s", "True VmBooted 2s", "False NotPaused 5s", "False WaitingForGuest 10m0s"},
		},
		{
			"and QEMU refuses something else",
			runner.Status{State: runner.Booted, Since: at(5), Pending: []runner.PendingChange{{Field: "cdroms.cd0"}, {Field: "currentCpus", Waiting: true}}},
			line{"True VmBooted 1s", "True VmBooted 2s", "False NotPaused 5s", "False Refused 10m0s"},
		},
		{
			"it is asked to shut down", runner.Status{State: runner.Terminating, Since: at(6)},
			line{"True VmTerminating 1s", "False VmTerminating 6s", "False NotPaused 5s", "True AsSpecified 10m0s"},
		},
		{
			"and has", runner.Status{State: runner.Stopped, Since: at(7)},
			line{"False VmStopped 7s", "False VmStopped 6s", "False NotPaused 5s", "True AsSpecified 10m0s"},
		},
		{
			"or has failed", runner.Status{State: runner.Failed, Message: "no such file", Since: at(8)},
			line{"False VmFailed 7s", "False VmFailed 6s", "False NotPaused 5s", "True AsSpecified 10m0s"},
		},
	}
	var c conditions
	for i, st := range steps {
		now := begin
		if i > 0 {
			now = at(600)
		}
		got := c.of(st.status, now)
		if diff := cmp.Diff(st.want, line{of(got[0]), of(got[1]), of(got[2]), of(got[3])}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", st.reason, diff)
		}
	}
	if got := c.of(steps[len(steps)-1].status, at(9))[0].Message; got != "no such file" {
		t.Errorf("message of a failure is %q", got)
	}
}

// A runner that is restarted goes on with the times of the one before.
func TestConditionsRemember(t *testing.T) {
	then := "2020-01-01T00:00:00Z"
	var c conditions
	c.remember([]condition{
		{Type: "Running", Status: "False", LastTransitionTime: then},
		{Type: "Booted", Status: "True", LastTransitionTime: then},
		{Type: "RestartRequired", Status: "True", LastTransitionTime: then},
	})
	got := c.of(runner.Status{State: runner.Starting, Since: time.Now()}, time.Now())
	if len(got) != 8 {
		t.Errorf("%d conditions, want the runner's own eight: %v", len(got), got)
	}
	if got[0].LastTransitionTime != then {
		t.Errorf("Running has the time %s, but has not changed", got[0].LastTransitionTime)
	}
	if got[1].LastTransitionTime == then {
		t.Error("Booted has the time of what it was")
	}
}

// Each state has conditions of its own, and a reason that the API server takes.
func TestPhasesAreComplete(t *testing.T) {
	for _, s := range []runner.State{runner.Starting, runner.Booting, runner.Booted, runner.Paused, runner.Terminating, runner.Stopped, runner.Failed} {
		if phases[s].reason == "" || phases[s].message == "" {
			t.Errorf("state %s has no reason or message", s)
		}
	}
}

// Each condition says which generation of the VirtualMachine it is about.
func TestConditionsGeneration(t *testing.T) {
	var c conditions
	for _, got := range c.of(runner.Status{State: runner.Booting, Generation: 7}, time.Now()) {
		if got.ObservedGeneration != 7 {
			t.Errorf("%s is about generation %d, want 7", got.Type, got.ObservedGeneration)
		}
	}
}
