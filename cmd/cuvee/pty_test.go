package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a command on a terminal of its own, of which the test has the other side.
type terminal struct {
	cmd          *exec.Cmd
	master, tty  *os.File
	screen       *output
	read         int
	before       *unix.Termios
	done, copied chan struct{}
}

// onTerminal starts a "cuvee" of this user on a terminal.
func (h *home) onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, tty := openTerminal(t)
	p := &terminal{
		cmd: h.command(t, args...), master: master, tty: tty,
		screen: &output{more: make(chan struct{})}, done: make(chan struct{}), copied: make(chan struct{}),
	}
	p.before = p.settings(t)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.copied)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			_, _ = p.screen.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		tty.Close()
		master.Close()
		<-p.copied
	})
	return p
}

// openTerminal returns both sides of a new terminal, see pts(4).
func openTerminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, tty
}

func (p *terminal) settings(t *testing.T) *unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *terminal) typeIn(t *testing.T, text string) {
	t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// shows waits until a text is on the screen, after what was waited for before.
func (p *terminal) shows(t *testing.T, text string) {
	t.Helper()
	p.read = p.screen.waitFor(t, p.read, text, p.done)
}

// ends waits for the end, and compares the exit code. The terminal has to be as it was.
func (p *terminal) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("does not end:\n%s", p.screen)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code is %d, want %d:\n%s", got, code, p.screen)
	}
	if after := p.settings(t); *after != *p.before {
		t.Errorf("the terminal was %+v, is left as %+v", *p.before, *after)
	}
}

// waitFor waits for a text after a place, and returns the place behind it. What was written last may come after the end.
func (o *output) waitFor(t *testing.T, from int, text string, end <-chan struct{}) int {
	t.Helper()
	timeout := time.After(patience)
	for {
		more := o.changed()
		if at := strings.Index(o.String()[from:], text); at >= 0 {
			return from + at + len(text)
		}
		select {
		case <-more:
		case <-end:
			end, timeout = nil, time.After(2*time.Second)
		case <-timeout:
			t.Fatalf("no %q:\n%s", text, o.String()[from:])
		}
	}
}
