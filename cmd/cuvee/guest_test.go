//go:build guest

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/runner"
)

// guestPatience is far more than the boot of a whole Debian takes on an emulated CPU; it only ends what hangs.
const guestPatience = 8 * time.Minute

// TestGuest boots Debian as it is, once, and looks at it from inside and outside. It takes minutes, so it is not among the
// tests of "make test": "make test-guest" runs it. The last case shuts the guest down.
func TestGuest(t *testing.T) {
	g := startGuest(t)
	for _, behaviour := range []struct {
		name string
		test func(*testing.T, *guest)
	}{
		{"AgentAnswers", testAgentAnswers},
		{"AgentReports", testAgentReports},
		{"CloudInit", testCloudInit},
		{"DisksHaveNames", testDisksHaveNames},
		{"ForwardsUDP", testForwardsUDP},
		{"CPUs", testCPUs},
		{"Memory", testMemory},
		{"Freezes", testFreezes},
		{"AgentShutsDown", testAgentShutsDown},
	} {
		t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, g) })
	}
	if t.Failed() {
		t.Logf("console:\n%s", g.screen)
	}
}

// guestVM is the VM of these tests. Its power button does nothing, so that only the agent can shut it down.
const guestVM = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: debian}
spec:
  cloudInit:
    metaData: {local-hostname: bookworm}
    userData:
      users:
        - {name: tester, lock_passwd: false, plain_text_passwd: secret, shell: /bin/sh}
      write_files:
        - path: /etc/systemd/logind.conf.d/power.conf
          content: "[Login]\nHandlePowerKey=ignore\n"
        # Debian leaves it to the site what becomes of a CPU that is plugged in.
        - path: /etc/udev/rules.d/90-cpu.rules
          content: 'SUBSYSTEM=="cpu", ACTION=="add", TEST=="online", ATTR{online}!="1", ATTR{online}="1"'
    networkConfig:
      version: 2
      ethernets:
        enp0s7: {dhcp4: true}
        enp0s8: {addresses: [10.0.9.42/24]}
  vm:
    firmware: uefi
    display: {}
    maximumCpus: 3
    currentCpus: 2
    maximumRam: 1280Mi
    currentRam: 1Gi
    powerdownTimeout: 300
    networks:
      - user: {forward: [{port: %d, guestPort: 9000, protocol: UDP}]}
      - user: {net: 10.0.9.0/24}
    disks:
      - volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 2Gi}}}}
      - volumeClaimTemplate: {metadata: {name: data}, spec: {resources: {requests: {storage: 64Mi}}}}
`

// guestSite makes the RAM of the VM something that can be added to.
const guestSite = "package vm\n\nsettings: memory: {hotplug: true, bootMiB: 768}\n"

// guest is a running VM with Debian in it.
type guest struct {
	vm       *runner.VM
	cfg      *runner.Config
	configs  chan *runner.Config
	udpPort  int
	screen   *output
	read     int
	keyboard *io.PipeWriter
	loggedIn bool
	begin    time.Time
	stop     context.CancelFunc
	done     chan struct{}
	end      runner.End
	err      error
}

// startGuest renders the VM as "cuvee run" does, and runs it.
func startGuest(t *testing.T) *guest {
	t.Helper()
	h := newHome(t)
	g := &guest{
		udpPort: freePort(t), configs: make(chan *runner.Config),
		screen: &output{more: make(chan struct{})}, done: make(chan struct{}),
	}
	g.cfg = renderGuest(t, h, fmt.Sprintf(guestVM, g.udpPort), debianDisk(t))
	in, keyboard := io.Pipe()
	g.keyboard = keyboard
	force := make(chan struct{})
	g.vm = runner.New(g.cfg, runner.Options{
		Configs: g.configs, ConsoleIn: in, ConsoleOut: g.screen, Force: force,
		Observe: func(s runner.State) {
			if s == runner.Booting && g.begin.IsZero() {
				g.begin = time.Now()
			}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	g.stop = cancel
	go func() {
		defer close(g.done)
		g.end, g.err = g.vm.Run(ctx)
	}()
	t.Cleanup(func() {
		close(force)
		<-g.done
		in.Close()
	})
	g.waitFor(t, "the guest is started", func(s runner.Status) bool { return s.Booted != nil })
	return g
}

// renderGuest makes the config of a VM on this machine.
func renderGuest(t *testing.T, h *home, vm, disk string) *runner.Config {
	t.Helper()
	site := filepath.Join(h.dir, "site")
	if err := os.Mkdir(site, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(site, "site.cue"), []byte(guestSite), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", h.runtime)
	f := runFlags{dataDir: filepath.Join(h.data, "debian"), accel: "tcg"}
	f.files, f.site = []string{h.write(t, vm)}, site
	set, err := f.templates(io.Discard, localTemplates)
	if err != nil {
		t.Fatal(err)
	}
	docs, others, err := f.load(&cobra.Command{}, set)
	if err != nil {
		t.Fatal(err)
	}
	if faults := set.Check(docs[0]); len(faults) > 0 {
		t.Fatal(faults)
	}
	host, err := f.host(docs[0], map[string]string{"system": disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.remove)
	cfg, err := host.config(os.Stderr, set, docs[0], others)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// debianDisk returns a copy of the disk that tools/debian-guest builds, sparse as that is.
func debianDisk(t *testing.T) string {
	t.Helper()
	build := exec.Command("../../tools/debian-guest/build.sh")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	disk := filepath.Join(t.TempDir(), "debian.raw")
	out, err := exec.Command("cp", "--sparse=always", "../../.cache/debian/guest.raw", disk).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return disk
}

// waitFor waits for a status.
func (g *guest) waitFor(t *testing.T, what string, condition func(runner.Status) bool) runner.Status {
	t.Helper()
	timeout := time.After(guestPatience)
	for {
		status, changed := g.vm.Status()
		if condition(status) {
			return status
		}
		select {
		case <-changed:
		case <-g.done:
			t.Fatalf("VM ended (%q, %v) while waiting until %s\n%s", g.end, g.err, what, g.screen)
		case <-timeout:
			t.Fatalf("timed out waiting until %s; status: %+v\n%s", what, status, g.screen)
		}
	}
}

// change gives the VM a changed config.
func (g *guest) change(t *testing.T, f func(*runner.Live)) {
	t.Helper()
	changed := *g.cfg
	f(&changed.Live)
	g.cfg = &changed
	select {
	case g.configs <- g.cfg:
	case <-g.done:
		t.Fatalf("VM ended (%q, %v)", g.end, g.err)
	}
}

// shows waits until the guest has written a text, after what was waited for before, and returns what came until then.
func (g *guest) shows(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(guestPatience)
	for {
		more := g.screen.changed()
		unread := g.screen.String()[g.read:]
		if before, _, ok := strings.Cut(unread, text); ok {
			g.read += len(before) + len(text)
			return before
		}
		select {
		case <-more:
		case <-g.done:
			t.Fatalf("VM ended (%q, %v) without %q:\n%s", g.end, g.err, text, g.screen)
		case <-timeout:
			t.Fatalf("no %q:\n%s", text, g.screen)
		}
	}
}

// typeIn types on the guest's serial console.
func (g *guest) typeIn(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(g.keyboard, text); err != nil {
		t.Fatal(err)
	}
}

// shell runs a command in the shell of the user that cloud-init has made, and returns what it writes.
func (g *guest) shell(t *testing.T, command string) string {
	t.Helper()
	g.logIn(t)
	g.typeIn(t, command+"; echo 'end of' output\n")
	out := g.shows(t, "end of output")
	return strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
}

// logIn logs in on the console, if nobody has yet.
func (g *guest) logIn(t *testing.T) {
	t.Helper()
	if g.loggedIn {
		return
	}
	g.shows(t, "login: ")
	g.typeIn(t, "tester\n")
	g.shows(t, "Password: ")
	g.typeIn(t, "secret\n")
	// Until then login takes what is typed for itself.
	g.shows(t, "$ ")
	// What is typed is not repeated, so that it is not taken for an answer; nor is there a prompt in it, or what cloud-init says.
	g.typeIn(t, "stty -echo; PS1=; cloud-init status --wait >/dev/null; echo 'no' echo\n")
	g.shows(t, "no echo")
	g.loggedIn = true
}

// wait waits for the VM's end.
func (g *guest) wait(t *testing.T) (runner.End, error) {
	t.Helper()
	select {
	case <-g.done:
		return g.end, g.err
	case <-time.After(guestPatience):
		return "", errors.New("the VM does not end")
	}
}
