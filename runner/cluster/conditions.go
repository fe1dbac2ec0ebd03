package cluster

import (
	"cmp"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// The types of the conditions that are the runner's.
const (
	conditionRunning = "Running"
	conditionBooted  = "Booted"
	conditionPaused  = "Paused"
	conditionChanges = "LiveChangesApplied"

	conditionGuestAgent = "GuestAgentConnected"
	conditionVmopAgent  = "VmopAgentConnected"
	conditionLoggedIn   = "UserLoggedIn"
	conditionConsole    = "ConsoleConnected"
)

// condition is meta/v1 Condition.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
}

// phase is what a state of a VM is as a condition.
type phase struct {
	running         bool
	reason, message string
}

// phases are the reasons of Running and Booted. They are stable: programs test them.
var phases = map[runner.State]phase{
	"":                 {false, "RunnerStarted", "The runner prepares the VM."},
	runner.Starting:    {false, "RunnerStarted", "The runner prepares the VM."},
	runner.Booting:     {true, "VmStarted", "The guest has been started."},
	runner.Booted:      {true, "VmBooted", "The guest's agent has answered."},
	runner.Paused:      {true, "VmPaused", "The guest is paused."},
	runner.Terminating: {true, "VmTerminating", "The guest is asked to shut down."},
	runner.Stopped:     {false, "VmStopped", "The VM does not run."},
	runner.Failed:      {false, "VmFailed", "The VM has failed."},
}

// conditions turns statuses into conditions, and remembers since when each holds.
type conditions struct {
	last map[string]condition
}

// remember takes over what is known about the conditions from an earlier runner.
func (c *conditions) remember(known []condition) {
	c.last = make(map[string]condition)
	for _, k := range known {
		c.last[k.Type] = k
	}
}

// of returns the conditions of a status, always all and in the same order.
func (c *conditions) of(s runner.Status, now time.Time) []condition {
	p := phases[s.State]
	if s.State == runner.Starting && (s.Reason == runner.ReasonImporting || s.Reason == runner.ReasonImportFailed) {
		p.reason = s.Reason
	}
	message := p.message
	if s.Message != "" && !p.running {
		message = s.Message
	}
	since := s.Since
	if since.IsZero() {
		since = now
	}
	all := []condition{
		c.set(conditionRunning, p.running, p.reason, message, since),
		c.set(conditionBooted, c.booted(s.State), p.reason, message, since),
		c.paused(s, since),
		c.changes(s, now),
		c.guestAgent(s, now),
		c.vmopAgent(s, now),
		c.loggedIn(s, now),
		c.console(s, now),
	}
	for i := range all {
		all[i].ObservedGeneration = s.Generation
	}
	return all
}

// booted does not change because a guest is paused: it goes on from where it was.
func (c *conditions) booted(s runner.State) bool {
	if s == runner.Paused {
		return c.last[conditionBooted].Status == "True"
	}
	return s == runner.Booted
}

func (c *conditions) paused(s runner.Status, since time.Time) condition {
	if s.State != runner.Paused {
		return c.set(conditionPaused, false, "NotPaused", "", since)
	}
	reason, message := cmp.Or(s.Reason, runner.ReasonPaused), s.Message
	if e := s.IOError; e != nil {
		reason = "IOError"
		if e.NoSpace {
			reason = "NoSpace"
		}
		message = strings.TrimSpace(e.Device + ": " + e.Operation + " failed: " + e.Reason)
	}
	return c.set(conditionPaused, true, reason, message, since)
}

func (c *conditions) changes(s runner.Status, now time.Time) condition {
	if len(s.Pending) == 0 {
		return c.set(conditionChanges, true, "AsSpecified", "", now)
	}
	reason := "WaitingForGuest"
	var lines []string
	for _, p := range s.Pending {
		if !p.Waiting {
			reason = "Refused"
		}
		lines = append(lines, p.Field+": "+p.Message)
	}
	return c.set(conditionChanges, false, reason, strings.Join(lines, "; "), now)
}

// set makes a condition, which keeps its time as long as its status does not change.
func (c *conditions) set(name string, holds bool, reason, message string, since time.Time) condition {
	n := condition{Type: name, Status: "False", Reason: reason, Message: cut(message, maxMessage), LastTransitionTime: apiTime(since)}
	if holds {
		n.Status = "True"
	}
	if last, ok := c.last[name]; ok && last.Status == n.Status {
		n.LastTransitionTime = last.LastTransitionTime
	}
	if c.last == nil {
		c.last = make(map[string]condition)
	}
	c.last[name] = n
	return n
}

// maxMessage is the length of a message that Kubernetes allows (meta/v1 Condition).
const maxMessage = 32768

// cut shortens a text to a number of bytes, at the end of a character.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "")
}
