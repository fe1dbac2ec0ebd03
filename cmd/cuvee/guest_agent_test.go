//go:build guest

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// The time from the guest's first instruction to the agent's answer is a figure of "make bench-console".
func testAgentAnswers(t *testing.T, g *guest) {
	g.waitFor(t, "the agent answers", func(s runner.Status) bool { return s.State == runner.Booted })
	fmt.Printf("figure guest.boot_to_agent.s %.1f s\n", time.Since(g.begin).Seconds())
}

// The real agent tells what the status of a VirtualMachine shows.
func testAgentReports(t *testing.T, g *guest) {
	ipv4 := func(s runner.Status) map[string][]string {
		got := map[string][]string{}
		for _, i := range s.Guest.Interfaces {
			got[i.Name] = slices.DeleteFunc(slices.Clone(i.Addresses), func(a string) bool { return strings.Contains(a, ":") })
		}
		return got
	}
	want := map[string][]string{"enp0s7": {"10.0.2.15"}, "enp0s8": {"10.0.9.42"}}
	// The lease may come after the agent's first answer.
	s := g.waitFor(t, "the agent reports the addresses", func(s runner.Status) bool {
		return s.Guest != nil && cmp.Equal(want, ipv4(s))
	})
	if s.Guest.OS.ID != "debian" || s.Guest.OS.VersionID != "12" {
		t.Errorf("agent reports another OS than Debian 12: %+v", s.Guest.OS)
	}
	if s.Guest.Hostname != "bookworm" || s.Guest.AgentVersion == "" {
		t.Errorf("agent of version %q reports the host name %q, want bookworm", s.Guest.AgentVersion, s.Guest.Hostname)
	}
}

// While the file systems are frozen nothing is written, and after that everything is.
func testFreezes(t *testing.T, g *guest) {
	// Who logs in writes.
	g.logIn(t)
	frozen, err := g.vm.Freeze(t.Context(), guestPatience)
	if err != nil || frozen == 0 {
		t.Fatalf("%d file systems are frozen, error %v", frozen, err)
	}
	// The shell in between keeps the one at the console from telling about a job that is done.
	g.shell(t, "( { echo written >$HOME/frozen; echo 'after the' thaw; } & )")
	if got := g.shell(t, "sleep 2"); strings.Contains(got, "after the thaw") {
		t.Error("the guest writes to a frozen file system")
	}
	thawed, err := g.vm.Thaw(t.Context())
	if err != nil || thawed != frozen {
		t.Errorf("%d file systems are thawed, %d were frozen, error %v", thawed, frozen, err)
	}
	g.shows(t, "after the thaw")
	if got := g.shell(t, "cat $HOME/frozen"); got != "written" {
		t.Errorf("the file has %q", got)
	}
}

// The guest does not listen to its power button, so it is the agent that shuts it down.
func testAgentShutsDown(t *testing.T, g *guest) {
	const property = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager HandlePowerKey"
	if got := g.shell(t, property); got != `s "ignore"` {
		t.Errorf("the guest listens to its power button: %s", got)
	}
	g.stop()
	end, err := g.wait(t)
	if err != nil || end != runner.EndRequested {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndRequested)
	}
}
