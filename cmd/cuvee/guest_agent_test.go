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
