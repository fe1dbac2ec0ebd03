package cluster

import (
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// guest is what the guest's agent tells.
type guest struct {
	AgentVersion string             `json:"agentVersion,omitempty"`
	Hostname     string             `json:"hostname,omitempty"`
	OS           *guestOS           `json:"os,omitempty"`
	Interfaces   []networkInterface `json:"interfaces,omitempty"`
}

// guestOS is guestagent.OS in the words of this API.
type guestOS struct {
	ID            string `json:"id,omitempty"`
	Name          string `json:"name,omitempty"`
	PrettyName    string `json:"prettyName,omitempty"`
	Version       string `json:"version,omitempty"`
	VersionID     string `json:"versionID,omitempty"`
	Variant       string `json:"variant,omitempty"`
	VariantID     string `json:"variantID,omitempty"`
	KernelRelease string `json:"kernelRelease,omitempty"`
	KernelVersion string `json:"kernelVersion,omitempty"`
	Machine       string `json:"machine,omitempty"`
}

type networkInterface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

func newGuest(g *runner.Guest) *guest {
	out := &guest{AgentVersion: g.AgentVersion, Hostname: g.Hostname}
	if g.OS != (guestagent.OS{}) {
		os := guestOS(g.OS)
		out.OS = &os
	}
	for _, i := range g.Interfaces {
		out.Interfaces = append(out.Interfaces, networkInterface(i))
	}
	return out
}

// guestAgent is about QEMU's guest agent.
func (c *conditions) guestAgent(s runner.Status, now time.Time) condition {
	set := func(holds bool, reason, message string) condition {
		return c.set(conditionGuestAgent, holds, reason, message, now)
	}
	switch {
	case !phases[s.State].running:
		return set(false, "VmStopped", "")
	case s.Agent == runner.AgentAnswers:
		return set(true, "GuestAgentAnswers", "")
	case s.Agent == runner.AgentSilent:
		return set(false, "GuestAgentSilent", "There is an agent in the guest, but it does not answer.")
	}
	return set(false, "GuestAgentAbsent", "No agent runs in the guest.")
}

// vmopAgent is about VM-Operator's agent in the guest.
func (c *conditions) vmopAgent(s runner.Status, now time.Time) condition {
	switch {
	case !phases[s.State].running:
		return c.set(conditionVmopAgent, false, "VmStopped", "", now)
	case s.Login.Connected:
		return c.set(conditionVmopAgent, true, "VmopAgentStarted", "", now)
	}
	return c.set(conditionVmopAgent, false, "VmopAgentDisconnected", "", now)
}

// loggedIn is about the user whom the spec wants to be logged in.
func (c *conditions) loggedIn(s runner.Status, now time.Time) condition {
	set := func(holds bool, reason, message string) condition {
		return c.set(conditionLoggedIn, holds, reason, message, now)
	}
	switch l := s.Login; {
	case !phases[s.State].running:
		return set(false, "VmStopped", "")
	case l.Wanted == "":
		return set(false, "NotRequested", "")
	case !l.Connected:
		return set(false, "VmopAgentDisconnected", "The agent that logs users in does not run in the guest.")
	case l.Failure != "":
		return set(false, "LoginFailed", l.Wanted+": "+l.Failure)
	case l.User == l.Wanted && !l.Processing:
		return set(true, "LoggedIn", l.User)
	}
	return set(false, "Processing", "The agent has been asked to log in "+s.Login.Wanted+".")
}

// console is about who sees the display.
func (c *conditions) console(s runner.Status, now time.Time) condition {
	switch {
	case !phases[s.State].running:
		return c.set(conditionConsole, false, "VmStopped", "", now)
	case s.ConsoleClient != "":
		return c.set(conditionConsole, true, "Connected", "Connection from "+s.ConsoleClient, now)
	}
	return c.set(conditionConsole, false, "Disconnected", "", now)
}
