package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 2 * time.Minute

// asRunner makes the test's program the command.
const asRunner = "CUVEE_TEST_AS_RUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(asRunner) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Guests of 16 bit code for a q35 machine.
var (
	// It halts.
	guestHalts = []byte{0xf4, 0xeb, 0xfd}
	// It powers off by the ACPI register at 0x604.
	guestPowersOff = []byte{0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xf4, 0xeb, 0xfd}
	// It enables the power button (0x602), waits for it (0x600), and powers off.
	guestWaits = append([]byte{
		0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef,
		0xba, 0x00, 0x06, 0xed, 0xa9, 0x00, 0x01, 0x74, 0xf7,
	}, guestPowersOff...)
)

// pod is where a runner runs: a directory with its config, mounted the way kubelet does it.
type pod struct {
	dir     string
	version int
	env     []string
}

func newPod(t *testing.T, guest []byte, change func(config map[string]any)) *pod {
	t.Helper()
	p := &pod{dir: t.TempDir()}
	sector := make([]byte, 1<<20)
	copy(sector, guest)
	sector[510], sector[511] = 0x55, 0xaa
	p.write(t, "guest.img", sector)
	for _, name := range []string{"data", "run", "config"} {
		if err := os.Mkdir(filepath.Join(p.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.configure(t, change)
	return p
}

func (p *pod) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// configure makes a config, with what a test changes about it.
func (p *pod) configure(t *testing.T, change func(config map[string]any)) {
	t.Helper()
	data, err := os.ReadFile("testdata/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(bytes.ReplaceAll(data, []byte("DIR"), []byte(p.dir)), &config); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(config)
	}
	if data, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	p.mount(t, data)
}

// mount makes a text the config, as kubelet does with a ConfigMap: in a new directory, which a symlink is then swapped to.
func (p *pod) mount(t *testing.T, data []byte) {
	t.Helper()
	p.version++
	dir := filepath.Join(p.dir, "config")
	name := "..2026_" + string(rune('a'+p.version))
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write(t, filepath.Join("config", name, "config.json"), data)
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if old == "" {
		if err := os.Symlink("..data/config.json", filepath.Join(dir, "config.json")); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
		t.Fatal(err)
	}
}

// live changes the live part of a config.
func live(key string, value any) func(map[string]any) {
	return func(config map[string]any) { config["live"].(map[string]any)[key] = value }
}

// process is a runner that runs.
type process struct {
	cmd  *exec.Cmd
	out  *lines
	done chan struct{}
}

// start starts a runner in the pod.
func (p *pod) start(t *testing.T, args ...string) *process {
	t.Helper()
	r := &process{
		cmd: exec.Command(os.Args[0], append([]string{"-c", filepath.Join(p.dir, "config", "config.json"), "--listen", "127.0.0.1:0"}, args...)...),
		out: newLines(), done: make(chan struct{}),
	}
	r.cmd.Env = append(os.Environ(), append(p.env, asRunner+"=1")...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(r.done); _ = r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if t.Failed() {
			t.Logf("the runner said:\n%s", r.out)
		}
	})
	return r
}

func (r *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// says waits for a line with a text.
func (r *process) says(t *testing.T, text string) string {
	t.Helper()
	line, err := r.out.wait(text, r.done)
	if err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return line
}

// ends waits for the end and compares the exit code.
func (r *process) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("runner does not end")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code is %d, want %d", got, code)
	}
}

// lines are what a process has said until now.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait returns the first whole line with a text.
func (l *lines) wait(text string, ended <-chan struct{}) (string, error) {
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		more, said := l.more, l.text.String()
		l.mu.Unlock()
		all := strings.Split(said, "\n")
		for _, line := range all[:len(all)-1] {
			if strings.Contains(line, text) {
				return line, nil
			}
		}
		select {
		case <-more:
		case <-ended:
			if l.String() == said {
				return "", errors.New("runner ended without saying")
			}
		case <-deadline:
			return "", errors.New("runner does not say")
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
