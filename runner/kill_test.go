package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner"
)

// childEnv has the path of a config for the test's program to run, instead of the tests.
const childEnv = "CUVEE_TEST_RUN_CONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(runChild(path))
	}
	os.Exit(m.Run())
}

// runChild runs a VM and says when its guest runs.
func runChild(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		fmt.Println(err)
		return runner.ExitFailed
	}
	c, err := runner.ParseConfig(data)
	if err != nil {
		fmt.Println(err)
		return runner.ExitFailed
	}
	end, err := runner.Run(context.Background(), c, runner.Options{Observe: func(s runner.State) { fmt.Println(s) }})
	return runner.ExitCode(end, err)
}

// A runner that is killed leaves neither QEMU nor swtpm behind.
func TestKilledRunner(t *testing.T) {
	t.Run("SameUser", func(t *testing.T) { testKilledRunner(t, nil) })
	t.Run("OtherUser", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can start QEMU as another user")
		}
		testKilledRunner(t, &runner.User{UID: 65534, GID: 65534})
	})
}

func testKilledRunner(t *testing.T, user *runner.User) {
	dir := openDir(t)
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile("testdata/config/1.0/tpm.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := runner.ParseConfig(bytes.ReplaceAll(data, []byte("/DIR"), []byte(dir)))
	if err != nil {
		t.Fatal(err)
	}
	c.Boot.User = user
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != string(runner.Booting) {
	}
	children := childrenOf(t, cmd.Process.Pid, user)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if len(children) != 2 {
		t.Fatalf("runner has the children %v, want QEMU and swtpm", children)
	}
	for name, fd := range children {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 10_000); n != 1 {
			t.Errorf("%s is still there (%v)", name, err)
		}
		unix.Close(fd)
	}
	// Neither its lock nor its sockets are in the way of the next one.
	ctx, cancel := context.WithCancel(t.Context())
	c.Live.PowerdownTimeout = 0
	end, err := runner.Run(ctx, c, runner.Options{Observe: func(s runner.State) {
		if s == runner.Booting {
			cancel()
		}
	}})
	if err != nil || end != runner.EndForced {
		t.Errorf("after that a run ends with %q, error %v", end, err)
	}
}

// childrenOf returns the children of a process as pidfds, which become readable when they end. They
// have to be the user's, if there is one.
func childrenOf(t *testing.T, parent int, user *runner.User) map[string]int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := make(map[string]int)
	for _, path := range stats {
		// "pid (name) state ppid …"; a process may have ended meanwhile.
		data, _ := os.ReadFile(path)
		head, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, name, _ := strings.Cut(head, " (")
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(n, 0)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		children[name] = fd
		if info, err := os.Stat(filepath.Dir(path)); err != nil {
			t.Error(err)
		} else if stat, ok := info.Sys().(*syscall.Stat_t); ok && user != nil && stat.Uid != user.UID {
			t.Errorf("%s runs as %d, want %d", name, stat.Uid, user.UID)
		}
	}
	return children
}

// openDir is a directory that other users may enter, with a path that leaves room for a socket's name.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
