//go:build guest

package main

import "testing"

// The real cloud-init takes what the VM's disk tells it: the name, the user, the networks.
func testCloudInit(t *testing.T, g *guest) {
	if got := g.shell(t, "hostname; id -un"); got != "bookworm\ntester" {
		t.Errorf("hostname and user are %q", got)
	}
	cases := map[string]struct{ command, want string }{
		"DHCP":   {"ip -o -4 addr show dev enp0s7 dynamic | awk '{print $4}'", "10.0.2.15/24"},
		"Static": {"ip -o -4 addr show dev enp0s8 | awk '{print $4}'", "10.0.9.42/24"},
		"Result": {"cloud-init status", "status: done"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := g.shell(t, tc.command); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.command, got, tc.want)
			}
		})
	}
}
