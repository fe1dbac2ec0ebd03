package main

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// detachKey is Ctrl-].
const detachKey = "\x1d"

// prompt is the end of the shell's. Ctrl-C waits for it: the guest's shell (BusyBox 1.35) can damage its heap when interrupted between
// two commands.
const prompt = "# "

// A real guest, with a shell at its serial port, is used through the commands for a running VM.
func TestConsole(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	run := h.start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+demodisk.Copy(t))
	run.waitFor(t, "cuvee-demo: ready")
	for _, behaviour := range []struct {
		name string
		test func(*testing.T, *home)
	}{
		{"Types", testConsoleTypes},
		{"TakesOver", testConsoleTakesOver},
		{"DetachKey", testConsoleDetachKey},
		{"HangsUp", testConsoleHangsUp},
		{"ReadOnly", testConsoleReadOnly},
		{"Log", testConsoleLog},
		{"Signal", testConsoleSignal},
		{"Names", testConsoleNames},
		{"Screenshot", testScreenshot},
		{"VNC", testVNC},
		{"NoDisplay", testViewerNoDisplay},
	} {
		t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, h) })
	}
	t.Run("VMEnds", func(t *testing.T) { testConsoleVMEnds(t, h, run) })
}

// What is typed reaches the guest's shell, and its answer the terminal; the guest does not notice the end.
func testConsoleTypes(t *testing.T, h *home) {
	p := h.onTerminal(t, "console", "hello")
	p.shows(t, "[cuvee: console of hello (Ctrl-] detaches)]")
	p.typeIn(t, "echo so \"it is\"\r")
	p.shows(t, "so it is")
	p.shows(t, prompt)
	// Ctrl-C is the guest's, and does not end the command.
	p.typeIn(t, "\x03echo still \"there\"\r")
	p.shows(t, "still there")
	p.typeIn(t, detachKey)
	p.ends(t, 0)
}

// The newest console types. The others show, are told, and take over with Enter.
func testConsoleTakesOver(t *testing.T, h *home) {
	first := h.onTerminal(t, "console", "hello")
	first.shows(t, "console of hello")
	first.typeIn(t, "echo of the \"first\"\r")
	first.shows(t, "of the first")
	second := h.onTerminal(t, "console", "hello")
	second.shows(t, "console of hello")
	first.shows(t, "another console types now")
	// Nobody hears this.
	first.typeIn(t, "lost")
	second.typeIn(t, "echo of the \"second\"\r")
	second.shows(t, "of the second")
	first.shows(t, "of the second")
	first.typeIn(t, "\r")
	first.shows(t, "this console types again")
	second.shows(t, "another console types now")
	first.typeIn(t, "echo first \"again\"\r")
	second.shows(t, "first again")
	if strings.Contains(second.screen.String(), "lost") {
		t.Errorf("the guest got what was typed where nobody heard it:\n%s", second.screen)
	}
	first.typeIn(t, detachKey)
	first.ends(t, 0)
	second.typeIn(t, detachKey)
	second.ends(t, 0)
}

func testConsoleDetachKey(t *testing.T, h *home) {
	p := h.onTerminal(t, "console", "hello", "--detach-key", "Ctrl-T")
	p.shows(t, "Ctrl-T detaches")
	p.typeIn(t, "echo at the \"prompt\"\r")
	p.shows(t, "at the prompt")
	p.shows(t, prompt)
	p.typeIn(t, detachKey+"\x03echo not \"yet\"\r")
	p.shows(t, "not yet")
	p.typeIn(t, "\x14")
	p.ends(t, 0)
	h.fails(t, 2, `"ctrl-7" is not valid`, "console", "hello", "--detach-key", "ctrl-7")
}

// A console that goes away while the guest writes is no concern of the guest.
func testConsoleHangsUp(t *testing.T, h *home) {
	p := h.onTerminal(t, "console", "hello")
	p.shows(t, "console of hello")
	p.typeIn(t, "seq 1000000 | while read -r n; do echo line $n; done &\r")
	for range 3 {
		gone := h.onTerminal(t, "console", "hello", "--read-only")
		gone.shows(t, "line ")
		if err := gone.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-gone.done
		p.shows(t, "line ")
	}
	p.typeIn(t, "kill $!\recho still \"here\"\r")
	p.shows(t, "still here")
	p.typeIn(t, detachKey)
	p.ends(t, 0)
}

// A console that only reads takes nothing over, and Ctrl-C is its user's.
func testConsoleReadOnly(t *testing.T, h *home) {
	writer := h.onTerminal(t, "console", "hello")
	writer.shows(t, "console of hello")
	reader := h.onTerminal(t, "console", "hello", "--read-only")
	reader.shows(t, "console of hello")
	reader.typeIn(t, "unheard")
	writer.typeIn(t, "echo for \"both\"\r")
	reader.shows(t, "for both")
	writer.shows(t, "for both")
	if s := writer.screen.String(); strings.Contains(s, "unheard") || strings.Contains(s, "another console") {
		t.Errorf("the reader types:\n%s", s)
	}
	reader.typeIn(t, "\x03")
	reader.ends(t, 0)
	writer.typeIn(t, detachKey)
	writer.ends(t, 0)
}

func testConsoleLog(t *testing.T, h *home) {
	log := h.output(t, "console", "hello", "--log")
	if !strings.Contains(log, "cuvee-demo: ready") {
		t.Errorf("the log does not have what was written before:\n%s", log)
	}
	if tail := h.output(t, "console", "hello", "--log", "--tail", "10"); len(tail) != 10 || !strings.HasSuffix(log, tail) {
		t.Errorf("the last 10 bytes are %q", tail)
	}
	h.fails(t, 2, "exclude each other", "console", "hello", "--log", "--read-only")
}

// A console that is ended leaves its terminal as it was.
func testConsoleSignal(t *testing.T, h *home) {
	p := h.onTerminal(t, "console", "hello")
	p.shows(t, "console of hello")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ends(t, 1)
}

func testConsoleNames(t *testing.T, h *home) {
	for _, command := range []string{"console", "screenshot", "viewer", "vnc"} {
		h.fails(t, 1, "default/nobody: no such VM runs here; those that do: default/hello", command, "nobody")
		h.fails(t, 1, "other/hello: no such VM runs here", command, "-n", "other", "hello")
		h.fails(t, 2, "name a VM", command)
		h.fails(t, 2, `unexpected argument "more"`, command, "hello", "more")
		if got := h.output(t, "__complete", command, "he"); !strings.HasPrefix(got, "hello\n:4\n") {
			t.Errorf("%s: completion of he is %q", command, got)
		}
	}
	h.output(t, "console", "hello", "--log", "--data-dir", filepath.Join(h.data, "cuvee", "default", "hello"))
	h.fails(t, 1, "no such VM runs here", "console", "hello", "--log", "--data-dir", h.dir)
}

func testScreenshot(t *testing.T, h *home) {
	file := filepath.Join(t.TempDir(), "screen.png")
	h.output(t, "screenshot", "hello", "-o", file)
	for what, data := range map[string]string{"file": readFile(t, file), "pipe": h.output(t, "screenshot", "hello")} {
		picture, err := png.Decode(strings.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if size := picture.Bounds().Size(); size.X < 640 || size.Y < 400 {
			t.Errorf("%s: the screen is %v", what, size)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want mode 0600", info.Mode(), err)
	}
	p := h.onTerminal(t, "screenshot", "hello")
	p.shows(t, "name a file with -o")
	p.ends(t, 2)
}

// A viewer on this machine is connected to the VM, more than one, over TCP and a Unix socket.
func testVNC(t *testing.T, h *home) {
	for network, listen := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + filepath.Join(h.dir, "vnc")} {
		cmd := h.command(t, "vnc", "hello", "--listen", listen)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		line := make([]byte, 200)
		n, err := stdout.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			conn, err := net.Dial(network, strings.TrimSpace(string(line[:n])))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			version := make([]byte, len("RFB 003.008\n"))
			if _, err := io.ReadFull(conn, version); err != nil || string(version) != "RFB 003.008\n" {
				t.Errorf("%s: the server says %q, %v", network, version, err)
			}
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", network, err)
		}
	}
	h.fails(t, 2, `--listen "0.0.0.0:5900": want a loopback address`, "vnc", "hello", "--listen", "0.0.0.0:5900")
	h.fails(t, 1, "something else than a socket", "vnc", "hello", "--listen", "unix:"+h.write(t, "my file"))
}

func testViewerNoDisplay(t *testing.T, h *home) {
	h.fails(t, 1, "the VM has no SPICE display", "viewer", "hello", "--print")
}

// On a terminal the VM is waited for when it has ended; without one, that is the end.
func testConsoleVMEnds(t *testing.T, h *home, run *cuveeRun) {
	p := h.onTerminal(t, "console", "hello")
	p.shows(t, "console of hello")
	piped := h.command(t, "console", "hello", "--tail", "1000000")
	var out bytes.Buffer
	piped.Stdin, piped.Stdout = strings.NewReader("echo from a \"pipe\"\n"), &out
	if err := piped.Start(); err != nil {
		t.Fatal(err)
	}
	p.shows(t, "from a pipe")
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "")
	if err := piped.Wait(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"cuvee-demo: ready", "from a pipe"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output without a terminal has no %q:\n%s", want, &out)
		}
	}
	p.shows(t, "the VM has ended")
	again := h.start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+demodisk.Copy(t))
	p.shows(t, "connected again")
	// The output of another run is new from its first byte.
	p.shows(t, "cuvee-demo: ready")
	p.typeIn(t, detachKey)
	p.ends(t, 0)
	again.signal(t, syscall.SIGTERM)
	again.ends(t, 0, "")
}

// command is a "cuvee" of this user.
func (h *home) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "cuvee", args...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+h.data, "XDG_RUNTIME_DIR="+h.runtime,
		// The cluster of whoever runs the tests is none of theirs.
		"KUBECONFIG="+filepath.Join(h.dir, "no-kubeconfig"))
	return cmd
}

// output runs a command that has to work.
func (h *home) output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := h.command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("cuvee %s: %v\n%s", strings.Join(args, " "), err, &errs)
	}
	return out.String()
}

// fails runs a command that has to fail, and says why in one line.
func (h *home) fails(t *testing.T, code int, said string, args ...string) {
	t.Helper()
	out, err := h.command(t, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("cuvee %s: %v, want exit code %d", strings.Join(args, " "), err, code)
	}
	if line, _, _ := strings.Cut(string(out), "\n"); !strings.Contains(line, said) {
		t.Errorf("cuvee %s: has no %q:\n%s", strings.Join(args, " "), said, out)
	}
}
