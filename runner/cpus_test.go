package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// withCPUs gives the VM slots for four CPUs.
func withCPUs(t *testing.T, code []byte) *runner.Config {
	t.Helper()
	c := loadConfig(t, "minimal")
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "smp", Keys: map[string]any{"cpus": 1, "maxcpus": 4}})
	addSector(t, c, filepath.Join(t.TempDir(), "guest.img"), code, 1<<20)
	return c
}

func (m *machine) setCPUs(n int) {
	m.t.Helper()
	m.change(func(c *runner.Config) { c.Live.CurrentCPUs = n })
}

func complies(cpus int) func(runner.Status) bool {
	return func(s runner.Status) bool { return s.CPUs == cpus && noPending(s) }
}

// CPUs are taken out while the guest runs. What a guest that is not up yet refuses is told, and done later.
//
// It is the last thing that this VM does: the memory of QEMU 7.2 is damaged by it under TCG, and the next CPU that is plugged in
// ends it.
func TestCPUsLess(t *testing.T) {
	c := withCPUs(t, cpuReleaser)
	c.Live.CurrentCPUs = 4
	m := boot(t, c)
	if status, _ := m.vm.Status(); status.CPUs != 4 {
		t.Errorf("guest starts with %d CPUs, want 4", status.CPUs)
	}
	m.setCPUs(2)
	status := m.waitFor("the guest refuses", func(s runner.Status) bool { return len(s.Pending) == 1 })
	if p := status.Pending[0]; p.Field != "currentCpus" || !strings.Contains(p.Message, "device_del") {
		t.Errorf("pending is %+v", p)
	}
	m.waitFor("two CPUs are gone", complies(2))
	m.shows("XX")
}

// CPUs are plugged in while the guest runs. Of more than there are slots for, the rest is told.
func TestCPUsMore(t *testing.T) {
	m := boot(t, withCPUs(t, cpuReleaser))
	m.setCPUs(2)
	m.waitFor("there are two", complies(2))
	m.setCPUs(6)
	status := m.waitFor("it is told", func(s runner.Status) bool { return len(s.Pending) == 1 })
	want := runner.PendingChange{Field: "currentCpus", Message: "no slots for 2 more"}
	if diff := cmp.Diff(want, status.Pending[0]); diff != "" || status.CPUs != 4 {
		t.Errorf("%d CPUs; pending (-want +got):\n%s", status.CPUs, diff)
	}
	m.setCPUs(4)
	m.waitFor("nothing is pending", complies(4))
}
