package runner_test

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/vmopagent"
	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// buildAgent makes the archive with QEMU's guest agent, once; it is kept in .cache.
var buildAgent = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "run", "./tools/demo-guest", "-agent", ".cache/demo/agent.cpio")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return "../.cache/demo/agent.cpio", nil
})

// withAgents is the demo's guest with the channels of both agents, and QEMU's guest agent on its second disk.
func withAgents(t *testing.T) *runner.Config {
	t.Helper()
	c := linux(t, demodisk.Copy(t))
	archive, err := buildAgent()
	if err != nil {
		t.Fatal(err)
	}
	c.Live.CurrentCPUs = 1
	add := func(option string, json map[string]any) {
		c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: option, JSON: json})
	}
	add("device", map[string]any{"driver": "virtio-serial-pci", "id": "ports"})
	for i, name := range []string{"guest-agent", "vmop-agent"} {
		c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "chardev", Value: "socket", Keys: map[string]any{"id": "c-" + name, "fd": map[string]any{"fd": name}}})
		port := []string{"org.qemu.guest_agent.0", "org.jdrupes.vmop_agent.0"}[i]
		add("device", map[string]any{"driver": "virtserialport", "bus": "ports.0", "id": "p-" + name, "name": port, "chardev": "c-" + name})
	}
	add("blockdev", map[string]any{
		"node-name": "agent", "driver": "raw", "read-only": true, "file": map[string]any{"driver": "file", "filename": archive},
	})
	add("device", map[string]any{"driver": "virtio-blk-pci", "drive": "agent"})
	return c
}

// agentScript teaches the guest's shell to run both agents: QEMU's own, and one that follows VM-Operator's protocol. It is typed in, so
// there are no tabs.
const agentScript = `
port() { for p in /sys/class/virtio-ports/*; do [ "$(cat $p/name)" != $1 ] || echo /dev/${p##*/}; done; }
agent() { qemu-ga -d -m virtio-serial -p $(port org.qemu.guest_agent.0) -t /run -f /run/qga.pid; }
vmop() {
 exec 9<>$(port org.jdrupes.vmop_agent.0)
 echo "220 Hello" >&9
 while read -r line <&9; do
  case $line in
  "login root") echo "504 Won't log in root" >&9 ;;
  "login "*) echo "102 wait" >&9; echo "201 in" >&9 ;;
  logout) echo "202 out" >&9 ;;
  esac
 done
}
(cd / && cpio -idu </dev/vdb) && echo un"packed"
`

// begins waits until the guest is up, and gives its shell what it needs for agents.
func (m *machine) begins() {
	m.t.Helper()
	m.shows("cuvee-demo: ready")
	m.typeIn(agentScript)
	m.shows("unpacked")
}

func answers(s runner.Status) bool { return s.Agent == runner.AgentAnswers }
func absent(s runner.Status) bool  { return s.Agent == runner.AgentAbsent && s.Guest == nil }

// A real guest agent is asked as soon as it is there, and each time again; it shuts the guest down.
func TestGuestAgent(t *testing.T) {
	m := boot(t, withAgents(t))
	events := m.vm.Subscribe()
	if _, err := m.vm.Freeze(t.Context(), time.Minute); !errors.Is(err, runner.ErrNoAgent) {
		t.Errorf("freeze without an agent: %v", err)
	}
	m.begins()
	m.typeIn("agent\n")
	status := m.waitFor("the agent tells of the address", func(s runner.Status) bool {
		return s.State == runner.Booted && answers(s) && hasAddress(s.Guest, "eth0", "10.0.2.15")
	})
	g := status.Guest
	if !strings.HasPrefix(g.AgentVersion, "7.") && g.AgentVersion == "" || g.Hostname != "cuvee-demo" || g.OS.ID != "cuvee-demo" || g.OS.KernelRelease == "" {
		t.Errorf("guest is %+v", *g)
	}

	// Its addresses are followed.
	m.typeIn("ip addr add 192.0.2.7/24 dev eth0\n")
	m.waitFor("there is another address", func(s runner.Status) bool { return hasAddress(s.Guest, "eth0", "192.0.2.7") })

	m.freezes()

	// An agent that ends takes what it told with it, and one that begins brings it back.
	m.typeIn("kill $(cat /run/qga.pid)\n")
	m.waitFor("the agent is gone", absent)
	m.typeIn("agent\n")
	m.waitFor("there is one again", answers)

	// One that hangs is not waited for.
	m.typeIn("kill -STOP $(cat /run/qga.pid)\n")
	m.waitFor("the agent hangs", func(s runner.Status) bool {
		return s.Agent == runner.AgentSilent && s.Guest == nil && s.State == runner.Booted
	})
	m.typeIn("kill -CONT $(cat /run/qga.pid)\n")
	m.waitFor("it goes on", answers)

	// A guest that boots anew has no agent until it has begun.
	m.execute("system_reset", nil, nil)
	m.waitFor("it boots", func(s runner.Status) bool { return s.State == runner.Booting && absent(s) })
	m.begins()
	m.typeIn("agent\n")
	m.waitFor("it is booted", func(s runner.Status) bool { return s.State == runner.Booted && answers(s) })

	m.stop()
	if end, err := m.wait(); err != nil || end != runner.EndRequested {
		t.Errorf("end is %q, error %v", end, err)
	}
	for e := range events {
		if e.Event == "POWERDOWN" {
			t.Error("the power button was pressed, too")
		}
	}
	if status, _ := m.vm.Status(); !absent(status) {
		t.Errorf("after the end the agent is %q, the guest %+v", status.Agent, status.Guest)
	}
}

func hasAddress(g *runner.Guest, name, address string) bool {
	if g == nil {
		return false
	}
	for _, i := range g.Interfaces {
		for _, a := range i.Addresses {
			if i.Name == name && a == address && i.MAC != "" {
				return true
			}
		}
	}
	return false
}

// freezes freezes the guest, which ends by a thaw, or by itself.
func (m *machine) freezes() {
	m.t.Helper()
	ctx := m.t.Context()
	if _, err := m.vm.Freeze(ctx, time.Hour); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.vm.Freeze(ctx, time.Hour); !errors.Is(err, runner.ErrFrozen) {
		m.t.Errorf("second freeze: %v", err)
	}
	m.execute("query-status", nil, nil)
	if _, err := m.vm.Thaw(ctx); err != nil {
		m.t.Error(err)
	}
	if _, err := m.vm.Freeze(ctx, 5*time.Second); err != nil {
		m.t.Fatal(err)
	}
	m.until("the guest is thawed by force", func() bool {
		_, err := m.vm.Freeze(ctx, time.Hour)
		return err == nil
	})
	if _, err := m.vm.Thaw(ctx); err != nil {
		m.t.Error(err)
	}
}

// VM-Operator's agent logs in whom the config says, at any time; what is known of it ends with it.
func TestLogin(t *testing.T) {
	c := withAgents(t)
	c.Live.LoggedInUser = "ann"
	m := boot(t, c)
	login := func(what string, want vmopagent.State) {
		t.Helper()
		m.waitFor(what, func(s runner.Status) bool { return s.Login == want })
	}
	wants := func(user string) { m.change(func(c *runner.Config) { c.Live.LoggedInUser = user }) }
	login("ann is wanted", vmopagent.State{Wanted: "ann"})
	m.begins()
	m.typeIn("vmop & vmop=$!\n")
	login("ann is there", vmopagent.State{Connected: true, Wanted: "ann", User: "ann"})
	wants("root")
	login("root is refused", vmopagent.State{Connected: true, Wanted: "root", Failure: "Won't log in root"})
	wants("bob")
	login("bob is there", vmopagent.State{Connected: true, Wanted: "bob", User: "bob"})
	m.typeIn("kill $vmop\n")
	login("the agent is gone", vmopagent.State{Wanted: "bob"})
	m.typeIn("vmop & vmop=$!\n")
	login("bob is there again", vmopagent.State{Connected: true, Wanted: "bob", User: "bob"})
	wants("")
	login("nobody is there", vmopagent.State{Connected: true})

	wants("x\nlogin root")
	status := m.waitFor("a name that is none is refused", func(s runner.Status) bool { return len(s.Pending) > 0 })
	if p := status.Pending[0]; p.Field != "loggedInUser" || p.Waiting || status.Login != (vmopagent.State{Connected: true}) {
		t.Errorf("pending %+v, login %+v", p, status.Login)
	}
	m.floods()
}

// floods lets a guest write as fast as it can to both of its agents' ports. QEMU and the runner have other things to do.
func (m *machine) floods() {
	m.t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m.typeIn("kill $vmop; yes '220 Hello' >$(port org.jdrupes.vmop_agent.0) & cat /dev/zero >$(port org.qemu.guest_agent.0) &\n")
	m.waitFor("the guest's agent is there, but does not answer", func(s runner.Status) bool { return s.Agent == runner.AgentSilent })
	asked := 0
	m.until("QEMU has answered often", func() bool {
		m.execute("query-status", nil, nil)
		asked++
		return asked == 200
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		m.t.Errorf("heap has grown by %d bytes", grown)
	}
	m.stop()
	if end, err := m.wait(); err != nil || end != runner.EndRequested {
		m.t.Errorf("end is %q, error %v", end, err)
	}
}
