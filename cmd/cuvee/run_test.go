package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 3 * time.Minute

// A VirtualMachine in a file boots, its guest gets what cloud-init tells it, and powers down when it is asked to. While it
// runs, nobody else gets at its files.
func TestRunBoots(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	disk := demodisk.Copy(t)
	run := h.start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+disk)
	run.waitFor(t, "cuvee-demo: ready")
	for _, want := range []string{"hostname: hello", "Hello from a virtual machine that was a YAML file a moment ago"} {
		if !strings.Contains(run.out.String(), want) {
			t.Errorf("console has no %q:\n%s", want, run.out)
		}
	}
	if n := len(entries(t, h.runtime)); n != 1 {
		t.Errorf("%d runtime directories while one VM runs", n)
	}
	t.Run("DiskInUse", func(t *testing.T) {
		other := newHome(t).start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+disk)
		other.ends(t, 3, "another VM runs with "+disk)
	})
	t.Run("DataInUse", func(t *testing.T) {
		again := h.start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+demodisk.Copy(t))
		again.ends(t, 1, filepath.Join(h.data, "cuvee", "default", "hello"))
	})

	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "asking the guest to power down")
	if left := entries(t, h.runtime); len(left) != 0 {
		t.Errorf("left in the runtime directory: %v", left)
	}
	got := entries(t, filepath.Join(h.data, "cuvee", "default", "hello"))
	for _, want := range []string{"fw-vars.fd", "resolved.json", "uuid.txt"} {
		if !slices.Contains(got, want) {
			t.Errorf("data directory has no %s, but %v", want, got)
		}
	}
	kept := readFile(t, filepath.Join(h.data, "cuvee", "default", "hello", "resolved.json"))
	if !regexp.MustCompile(`"type": "pc-q35-[0-9]`).MatchString(kept) {
		t.Errorf("kept choices have no versioned machine type:\n%s", kept)
	}
}

// A guest that shuts itself down ends the run, or starts again if the spec says so.
func TestRunStartsAgain(t *testing.T) {
	t.Parallel()
	const vm = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: again}
spec:
  SHUTDOWN
  cloudInit: {userData: {runcmd: ["echo a round", "poweroff"]}}
  vm: {firmware: bios, maximumRam: 512Mi, display: {}, disks: [{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}}]}
`
	t.Run("Default", func(t *testing.T) {
		h := newHome(t)
		run := h.start(t, "-f", h.write(t, strings.Replace(vm, "SHUTDOWN", "", 1)), "--disk", "system="+demodisk.Copy(t))
		run.ends(t, 0, "a round")
	})
	t.Run("False", func(t *testing.T) {
		h := newHome(t)
		run := h.start(t, "-f", h.write(t, strings.Replace(vm, "SHUTDOWN", "guestShutdownStops: false", 1)), "--disk", "system="+demodisk.Copy(t))
		run.waitFor(t, "it starts again")
		run.signal(t, syscall.SIGTERM)
		run.ends(t, 0, "a round")
	})
}

// Ctrl-C is a power button, too, and a legacy BIOS boots the same disk.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	hello := strings.Replace(readFile(t, "../../examples/hello.yaml"), "firmware: uefi", "firmware: bios", 1)
	run := h.start(t, "-f", h.write(t, hello), "--disk", "system="+demodisk.Copy(t))
	run.waitFor(t, "cuvee-demo: ready")
	run.signal(t, syscall.SIGINT)
	run.ends(t, 0, "asking the guest to power down")
}

// A Ctrl-C before there is a QEMU calls the start off, and leaves nothing behind.
func TestRunCalledOff(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(notify)
	if _, err := unix.InotifyAddWatch(notify, h.runtime, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	run := h.start(t, "-f", h.write(t, small("")))
	// The runtime directory is what would be left: it is made first.
	if !readable(notify, patience) {
		t.Fatalf("no runtime directory is made:\n%s", run.out)
	}
	run.signal(t, syscall.SIGINT)
	run.ends(t, 0, "")
	if left := entries(t, h.runtime); len(left) != 0 {
		t.Errorf("left in the runtime directory: %v", left)
	}
}

// A cuvee that is killed leaves neither QEMU nor swtpm behind.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("swtpm is not installed (Debian: swtpm)")
	}
	h := newHome(t)
	run := h.start(t, "-v", "-f", h.write(t, small("useTpm: true")))
	run.waitFor(t, "VM is Booting")
	children := run.children(t)
	if err := run.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-run.done
	for _, name := range []string{"qemu-system-x86", "swtpm"} {
		if _, ok := children[name]; !ok {
			t.Errorf("no %s among the children %v", name, children)
		}
	}
	for name, child := range children {
		if !child.gone() {
			t.Errorf("%s is still there", name)
			_ = unix.Kill(child.pid, unix.SIGKILL)
		}
	}
}

// The exit codes are those that the help lists.
func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		vm     string
		args   []string
		// act ends the VM when its guest runs.
		act  func(*testing.T, *cuveeRun)
		code int
		said string
	}{
		"Refused": {
			reason: "An input that is not valid is not run.",
			vm:     small("maximumCpus: 0"), code: 1, said: "spec.vm.maximumCpus: 0 is not valid",
		},
		"UnknownDisk": {
			reason: "A slip of the pen in a disk's name must not boot an empty disk.",
			vm:     small(""), args: []string{"--disk", "sistem=run_test.go"}, code: 1, said: "sistem: the VM has no disk of this name",
		},
		"MissingDisk": {
			reason: "A file that is given has to be there.",
			vm:     small(""), args: []string{"--disk", "system=not-there.raw"}, code: 1, said: "not-there.raw",
		},
		"CommaInDisk": {
			reason: "A file's name may hold what separates elsewhere.",
			vm:     small(""), args: []string{"--disk", `system=a,b="c".raw`}, code: 1, said: `a,b="c".raw: no such file`,
		},
		"DiskTwice": {
			reason: "Of two files for a disk one would be left out.",
			vm:     small(""), args: []string{"--disk", "system=a", "--disk", "system=b"}, code: 2, said: "--disk system is given twice",
		},
		"DiskWithoutFile": {
			reason: "A disk without a file is a mistake in the command line.",
			vm:     small(""), args: []string{"--disk", "system="}, code: 2, said: `--disk "system=": want NAME=FILE`,
		},
		"Usage": {
			reason: "A wrong command line is told from a wrong input.",
			vm:     small(""), args: []string{"--accel", "xen"}, code: 2, said: `unknown accelerator "xen"`,
		},
		"QEMURefuses": {
			reason: "What only QEMU can tell, it tells.",
			vm:     small("maximumRam: 7000Ti"), code: 3, said: "QEMU refused to start",
		},
		"TimedOut": {
			reason: "A guest that does not listen is switched off after the timeout.",
			vm:     small("powerdownTimeout: 1"), act: func(t *testing.T, r *cuveeRun) { r.signal(t, syscall.SIGTERM) },
			code: 4, said: "the guest did not shut down",
		},
		"SecondInterrupt": {
			reason: "A second Ctrl-C does not wait for the timeout.",
			vm:     small("powerdownTimeout: 3600"), act: func(t *testing.T, r *cuveeRun) {
				r.signal(t, syscall.SIGINT)
				r.waitFor(t, "asking the guest to power down")
				r.signal(t, syscall.SIGINT)
			},
			code: 4, said: "the guest did not shut down",
		},
		"QEMUEnds": {
			reason: "A QEMU that ends by itself is told from a guest that shuts down.",
			vm:     small(""), act: func(t *testing.T, r *cuveeRun) {
				children := r.children(t)
				qemu, ok := children["qemu-system-x86"]
				if !ok {
					t.Fatalf("no QEMU among the children %v", children)
				}
				if err := unix.Kill(qemu.pid, unix.SIGKILL); err != nil {
					t.Error(err)
				}
			},
			code: 5, said: "QEMU ended by itself",
		},
	}
	codes := map[string]bool{"0": true, "6": true} // TestRunBoots, TestRunPanics
	for name, tc := range cases {
		codes[fmt.Sprint(tc.code)] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Log(tc.reason)
			h := newHome(t)
			run := h.start(t, append([]string{"-v", "-f", h.write(t, tc.vm)}, tc.args...)...)
			if tc.act != nil {
				run.waitFor(t, "VM is Booting")
				tc.act(t, run)
			}
			run.ends(t, tc.code, tc.said)
			if left := entries(t, h.runtime); len(left) != 0 {
				t.Errorf("left in the runtime directory: %v", left)
			}
		})
	}
	help, err := exec.Command("cuvee", "run", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "Exit codes:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^  (\d)  `).FindAllStringSubmatch(list, -1) {
		if !codes[m[1]] {
			t.Errorf("exit code %s of the help is not tried", m[1])
		}
		delete(codes, m[1])
	}
	if len(codes) > 0 {
		t.Errorf("the help does not list the exit codes %v", codes)
	}
}

// Without --disk a disk is a file in the data directory, made at the first start.
func TestRunMakesDisks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	run := h.start(t, "-v", "-f", h.write(t, small("powerdownTimeout: 0")))
	run.waitFor(t, "VM is Booting")
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 4, "the guest did not shut down")
	info, err := os.Stat(filepath.Join(h.data, "cuvee", "default", "small", "disks", "system-disk", "disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() != 64<<20 {
		t.Errorf("disk has %d bytes, want 64Mi", info.Size())
	}
}

// small is a VM that no guest is in, with more fields in its spec.vm.
func small(fields string) string {
	return `apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: small}
spec:
  vm:
    firmware: bios
    display: {}
    ` + fields + `
    disks:
      - volumeClaimTemplate:
          metadata: {name: system}
          spec: {resources: {requests: {storage: 64Mi}}}
`
}

// home is a user's directories.
type home struct{ dir, data, runtime string }

func newHome(t *testing.T) *home {
	t.Helper()
	// A short path, as sockets are in it.
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &home{dir: dir, data: filepath.Join(dir, "data"), runtime: filepath.Join(dir, "run")}
	if err := os.Mkdir(h.runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// write makes a file of a custom resource.
func (h *home) write(t *testing.T, vm string) string {
	t.Helper()
	path := filepath.Join(h.dir, "vm.yaml")
	if err := os.WriteFile(path, []byte(vm), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cuveeRun is a "cuvee run" that has been started.
type cuveeRun struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// start starts "cuvee run" without KVM, as no guest may run under it where the tests do.
func (h *home) start(t *testing.T, args ...string) *cuveeRun {
	t.Helper()
	r := h.prepare(t, args...)
	r.cmd.Stdout = r.out
	r.begin(t)
	return r
}

// startReading is start, but that only so many bytes of its standard output are read, and then nothing any more.
func (h *home) startReading(t *testing.T, bytes int64, args ...string) *cuveeRun {
	t.Helper()
	r := h.prepare(t, args...)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stdout = writer
	r.begin(t)
	writer.Close()
	go func() {
		defer reader.Close()
		_, _ = io.CopyN(io.Discard, reader, bytes)
	}()
	return r
}

func (h *home) prepare(t *testing.T, args ...string) *cuveeRun {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
	}
	r := &cuveeRun{
		cmd:  exec.Command("cuvee", append([]string{"run", "--accel", "tcg"}, args...)...),
		out:  &output{more: make(chan struct{})},
		done: make(chan struct{}),
	}
	r.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+h.data, "XDG_RUNTIME_DIR="+h.runtime, "XDG_CACHE_HOME="+filepath.Join(h.dir, "cache"))
	r.cmd.Stderr = r.out
	return r
}

func (r *cuveeRun) begin(t *testing.T) {
	t.Helper()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
}

func (r *cuveeRun) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until the command has written something.
func (r *cuveeRun) waitFor(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		more := r.out.changed()
		if strings.Contains(r.out.String(), text) {
			return
		}
		select {
		case <-more:
		case <-r.done:
			t.Fatalf("ended (%v) without %q:\n%s", r.cmd.ProcessState, text, r.out)
		case <-ctx.Done():
			t.Fatalf("no %q within %v:\n%s", text, patience, r.out)
		}
	}
}

// ends waits for the end, and compares it.
func (r *cuveeRun) ends(t *testing.T, code int, said string) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatalf("does not end:\n%s", r.out)
	}
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code is %d, want %d:\n%s", got, code, r.out)
	}
	if !strings.Contains(r.out.String(), said) {
		t.Errorf("output has no %q:\n%s", said, r.out)
	}
}

// output is what a command has written, for a test to wait for.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.text.Write(b)
}

// changed is closed when there is more.
func (o *output) changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.more
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// childProcess is a process with a descriptor that becomes readable when it ends.
type childProcess struct{ pid, fd int }

func (c childProcess) gone() bool { return readable(c.fd, 10*time.Second) }

// readable waits until a descriptor can be read.
func readable(fd int, timeout time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, int(timeout.Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}

// processStat matches what /proc says of a process: its id, its name, its state, its parent.
var processStat = regexp.MustCompile(`^(\d+) \((.*)\) \S (\d+) `)

// children returns the command's own children by name.
func (r *cuveeRun) children(t *testing.T) map[string]childProcess {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := make(map[string]childProcess)
	for _, path := range stats {
		// A process may have ended meanwhile.
		stat, _ := os.ReadFile(path)
		m := processStat.FindSubmatch(stat)
		if m == nil || string(m[3]) != strconv.Itoa(r.cmd.Process.Pid) {
			continue
		}
		pid, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		children[string(m[2])] = childProcess{pid, fd}
	}
	return children
}

// entries are the names in a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
