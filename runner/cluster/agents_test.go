package cluster

import (
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// TestConditionsOfAgents says what is true at each step of a guest with agents.
func TestConditionsOfAgents(t *testing.T) {
	cases := map[string]struct {
		reason string
		status runner.Status
		want   map[string]string
	}{
		"Starting": {
			"There is no guest yet.", runner.Status{State: runner.Starting, Login: vmopagent.State{Wanted: "ann"}},
			map[string]string{
				"GuestAgentConnected": "False VmStopped", "VmopAgentConnected": "False VmStopped", "UserLoggedIn": "False VmStopped", "ConsoleConnected": "False VmStopped",
			},
		},
		"Booting": {
			"No agent has begun.", runner.Status{State: runner.Booting, Login: vmopagent.State{Wanted: "ann"}},
			map[string]string{
				"GuestAgentConnected": "False GuestAgentAbsent", "VmopAgentConnected": "False VmopAgentDisconnected",
				"UserLoggedIn": "False VmopAgentDisconnected", "ConsoleConnected": "False Disconnected",
			},
		},
		"Processing": {
			"A login that is under way is none.",
			runner.Status{State: runner.Booted, Agent: runner.AgentAnswers, Login: vmopagent.State{Connected: true, Wanted: "ann", Processing: true}},
			map[string]string{"GuestAgentConnected": "True GuestAgentAnswers", "VmopAgentConnected": "True VmopAgentStarted", "UserLoggedIn": "False Processing"},
		},
		"LoggedIn": {
			"It is one when the agent says so.",
			runner.Status{State: runner.Booted, Login: vmopagent.State{Connected: true, Wanted: "ann", User: "ann"}, ConsoleClient: "192.0.2.1"},
			map[string]string{"UserLoggedIn": "True LoggedIn", "ConsoleConnected": "True Connected"},
		},
		"Other": {
			"Another user is not who is wanted.",
			runner.Status{State: runner.Booted, Login: vmopagent.State{Connected: true, Wanted: "bob", User: "ann", Processing: true}},
			map[string]string{"UserLoggedIn": "False Processing"},
		},
		"Failed": {
			"A refusal is told.", runner.Status{State: runner.Booted, Login: vmopagent.State{Connected: true, Wanted: "root", Failure: "no"}},
			map[string]string{"UserLoggedIn": "False LoginFailed"},
		},
		"NotRequested": {
			"Nobody is wanted, and the last one has not gone yet.",
			runner.Status{State: runner.Booted, Agent: runner.AgentSilent, Login: vmopagent.State{Connected: true, User: "ann", Processing: true}},
			map[string]string{"UserLoggedIn": "False NotRequested", "GuestAgentConnected": "False GuestAgentSilent"},
		},
		"Disconnected": {
			"An agent that is gone logs nobody in.", runner.Status{State: runner.Paused, Login: vmopagent.State{Wanted: "ann"}},
			map[string]string{"VmopAgentConnected": "False VmopAgentDisconnected", "UserLoggedIn": "False VmopAgentDisconnected"},
		},
		"Stopped": {
			"Nothing is left of a VM that has stopped.", runner.Status{State: runner.Stopped, Login: vmopagent.State{Wanted: "ann"}},
			map[string]string{"VmopAgentConnected": "False VmStopped", "UserLoggedIn": "False VmStopped", "GuestAgentConnected": "False VmStopped"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c conditions
			got := map[string]string{}
			for _, condition := range c.of(tc.status, time.Now()) {
				got[condition.Type] = condition.Status + " " + condition.Reason
			}
			for name, want := range tc.want {
				if got[name] != want {
					t.Errorf("%s\n%s is %s, want %s", tc.reason, name, got[name], want)
				}
			}
		})
	}
}
