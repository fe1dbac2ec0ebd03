package runner_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// machine is a VM that runs beside its test, and is ended with it.
type machine struct {
	t       *testing.T
	vm      *runner.VM
	cfg     *runner.Config
	configs chan *runner.Config
	console *terminal
	in      *io.PipeWriter
	stop    context.CancelFunc
	force   func()
	done    chan struct{}
	end     runner.End
	err     error
}

// boot runs a VM, and returns when its guest has been started.
func boot(t *testing.T, c *runner.Config) *machine {
	t.Helper()
	m := launch(t, c, nil)
	m.waitFor("guest is started", func(s runner.Status) bool { return s.Booted != nil && s.State != runner.Starting })
	return m
}

// launch runs a VM; observe may be nil.
func launch(t *testing.T, c *runner.Config, observe func(runner.State)) *machine {
	t.Helper()
	in, keyboard := io.Pipe()
	force := make(chan struct{})
	m := &machine{
		t: t, cfg: c, configs: make(chan *runner.Config), console: newTerminal(), in: keyboard,
		done: make(chan struct{}), force: sync.OnceFunc(func() { close(force) }),
	}
	m.vm = runner.New(c, runner.Options{
		Configs: m.configs, ConsoleIn: in, ConsoleOut: m.console, Force: force, Observe: observe,
	})
	m.vm.Hurry()
	ctx, cancel := context.WithCancel(t.Context())
	m.stop = cancel
	go func() {
		defer close(m.done)
		m.end, m.err = m.vm.Run(ctx)
	}()
	t.Cleanup(func() {
		m.force()
		<-m.done
		in.Close()
		if t.Failed() {
			status, _ := m.vm.Status()
			t.Logf("last status: %+v\nconsole:\n%.20000s", status, m.console)
		}
	})
	return m
}

// waitFor waits for a status.
func (m *machine) waitFor(what string, condition func(runner.Status) bool) runner.Status {
	m.t.Helper()
	timeout := time.After(runTime)
	for {
		status, changed := m.vm.Status()
		if condition(status) {
			return status
		}
		select {
		case <-changed:
		case <-m.done:
			m.t.Fatalf("VM ended (%q, %v) while waiting until %s", m.end, m.err, what)
		case <-timeout:
			m.t.Fatalf("timed out waiting until %s; status: %+v", what, status)
		}
	}
}

// until waits until something is so that nobody tells.
func (m *machine) until(what string, condition func() bool) {
	m.t.Helper()
	tick, timeout := time.NewTicker(5*time.Millisecond), time.After(runTime)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout:
			m.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// change gives the VM a changed config.
func (m *machine) change(f func(*runner.Config)) {
	m.t.Helper()
	data, err := json.Marshal(m.cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.cfg, err = runner.ParseConfig(data); err != nil {
		m.t.Fatal(err)
	}
	f(m.cfg)
	select {
	case m.configs <- m.cfg:
	case <-m.done:
		m.t.Fatalf("VM ended (%q, %v)", m.end, m.err)
	}
}

// wait waits for the VM's end.
func (m *machine) wait() (runner.End, error) {
	m.t.Helper()
	select {
	case <-m.done:
	case <-time.After(runTime):
		m.t.Fatal("VM does not end")
	}
	return m.end, m.err
}

// execute runs a QMP command that has to work.
func (m *machine) execute(command string, args, result any) {
	m.t.Helper()
	if err := m.vm.Execute(m.t.Context(), command, args, result); err != nil {
		m.t.Fatal(err)
	}
}

// typeIn gives the guest input.
func (m *machine) typeIn(text string) {
	m.t.Helper()
	if _, err := io.WriteString(m.in, text); err != nil {
		m.t.Fatal(err)
	}
}

// shows waits until the guest has written a text after what was waited for before.
func (m *machine) shows(text string) {
	m.t.Helper()
	if !m.console.waitFor(text, m.done) {
		m.t.Fatalf("console has no %q", text)
	}
}

// terminal is what the guest has written.
type terminal struct {
	mu   sync.Mutex
	text strings.Builder
	read int
	more chan struct{}
}

func newTerminal() *terminal {
	return &terminal{more: make(chan struct{})}
}

func (c *terminal) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(b)
	close(c.more)
	c.more = make(chan struct{})
	return len(b), nil
}

func (c *terminal) waitFor(text string, end <-chan struct{}) bool {
	timeout := time.After(runTime)
	for {
		c.mu.Lock()
		at, more := strings.Index(c.text.String()[c.read:], text), c.more
		if at >= 0 {
			c.read += at + len(text)
		}
		c.mu.Unlock()
		if at >= 0 {
			return true
		}
		select {
		case <-more:
		case <-end:
			// What was written last may have come meanwhile.
			end, timeout = nil, time.After(0)
		case <-timeout:
			return false
		}
	}
}

func (c *terminal) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}
