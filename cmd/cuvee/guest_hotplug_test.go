//go:build guest

package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

const mebibyte = 1 << 20

// CPUs are plugged into the running guest, which uses them at once. That they are also taken out is tested with the demo guest, at its
// end: QEMU 7.2 damages its own heap when a CPU is unplugged without KVM, and this guest has to go on.
func testCPUs(t *testing.T, g *guest) {
	if got := g.shell(t, "nproc"); got != "2" {
		t.Errorf("the guest starts with %s CPUs, want 2", got)
	}
	g.change(t, func(l *runner.Live) { l.CurrentCPUs = 3 })
	g.becomes(t, "nproc", func(n int) bool { return n == 3 })
	g.waitFor(t, "the CPUs are as wished", func(s runner.Status) bool { return s.CPUs == 3 && len(s.Pending) == 0 })
}

// RAM is added to the running guest by virtio-mem, and taken and given back by the balloon.
func testMemory(t *testing.T, g *guest) {
	const total = "awk '/MemTotal/ {print int($2/1024)}' /proc/meminfo"
	// It has started with 768 MiB and been given 256 more.
	g.becomes(t, total, func(mib int) bool { return mib > 800 })
	g.change(t, func(l *runner.Live) { l.Memory = map[string]int64{"hotplugRAM": 512 * mebibyte} })
	g.waitFor(t, "RAM is added", func(s runner.Status) bool { return s.RAM == 1280*mebibyte && len(s.Pending) == 0 })
	g.becomes(t, total, func(mib int) bool { return mib > 1060 })
	g.change(t, func(l *runner.Live) { l.CurrentRAM = 512 * mebibyte })
	g.waitFor(t, "the balloon has taken RAM", func(s runner.Status) bool { return s.RAM == (512+512)*mebibyte })
	g.becomes(t, total, func(mib int) bool { return mib < 1060 })
}

// becomes waits until a command in the guest prints a number that is as it should be.
func (g *guest) becomes(t *testing.T, command string, ok func(int) bool) {
	t.Helper()
	var got string
	for end := time.Now().Add(guestPatience); time.Now().Before(end); {
		got = g.shell(t, command)
		if n, err := strconv.Atoi(got); err == nil && ok(n) {
			return
		}
		g.shell(t, "sleep 0.1")
	}
	t.Fatalf("%s: still %q", command, got)
}
