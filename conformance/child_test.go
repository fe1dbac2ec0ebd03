package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/cuvee-vm/cuvee/runner"
)

// childEnv has the directory of a VM for the test's program to run, instead of the tests.
const childEnv = "CUVEE_TEST_VM_DIR"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(childEnv)
	switch {
	case !ok:
		os.Exit(m.Run())
	case dir != "":
		if err := runVM(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// outcome is how the run of a VM ended that was called off when its guest began to run.
type outcome struct {
	End   runner.End `json:"end"`
	Error string     `json:"error,omitempty"`
	// Warnings are what the runner warned of before.
	Warnings []string `json:"warnings,omitempty"`
}

// runVM runs the VM of a directory and writes its outcome.
func runVM(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return err
	}
	c, err := runner.ParseConfig(data)
	if err != nil {
		return err
	}
	if err := furnish(c, filepath.Join(dir, "images")); err != nil {
		return err
	}
	if err := confine(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var o outcome
	force := make(chan struct{})
	warnings := &recorder{}
	end, err := runner.Run(ctx, c, runner.Options{
		Logger: slog.New(warnings),
		Force:  force,
		Observe: func(s runner.State) {
			if s == runner.Booting {
				o.Warnings = append(slices.Clone(warnings.lines), unreachable()...)
				close(force)
			}
		},
	})
	if o.End = end; err != nil {
		o.Error, o.Warnings = err.Error(), warnings.lines
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// unreachable lists the children that this process may not end, which run as another user. The kernel, too, ends them
// for a runner that is gone only with the rights that the runner had.
func unreachable() []string {
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		return []string{"the kernel does not list this process' children"}
	}
	var lines []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			// The thread is gone; the one that started the children stays.
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			if err == nil {
				err = unix.Kill(pid, 0)
			}
			if err != nil {
				lines = append(lines, fmt.Sprintf("cannot end child %s: %v", field, err))
			}
		}
	}
	return lines
}

// furnish gives this process' network what a VM looks for in it: its bridges, and images on a web server.
func furnish(c *runner.Config, images string) error {
	if !isolated() {
		return nil
	}
	commands := [][]string{{"link", "set", "lo", "up"}}
	for _, tap := range c.Boot.Taps {
		if !slices.ContainsFunc(commands, func(c []string) bool { return slices.Contains(c, tap.Bridge) }) {
			commands = append(commands, []string{"link", "add", tap.Bridge, "type", "bridge"})
		}
	}
	for _, args := range commands {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, http.FileServer(http.Dir(images))) }()
	return nil
}

// capabilitiesFile has the capabilities of a VM's container, where it runs as root.
const capabilitiesFile = "capabilities.json"

// capabilities are the numbers of those that a container may be given.
var capabilities = map[corev1.Capability]uintptr{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "KILL": unix.CAP_KILL, "NET_ADMIN": unix.CAP_NET_ADMIN,
	"SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID,
}

// confine leaves root no more capabilities than the VM's container has: root in a pod is not root of these tests. The
// program is started anew, as only that takes the capabilities from all threads.
func confine(dir string) error {
	file := filepath.Join(dir, capabilitiesFile)
	data, err := os.ReadFile(file)
	if err != nil {
		// There are none to take, or they are taken.
		return nil
	}
	var names []corev1.Capability
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	var kept []uintptr
	for _, n := range names {
		number, ok := capabilities[n]
		if !ok {
			return fmt.Errorf("capability %s is not known here", n)
		}
		kept = append(kept, number)
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	runtime.LockOSThread()
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if slices.Contains(kept, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// isolated says that this process has a network of its own: there is nothing in it but a loopback that is down.
func isolated() bool {
	interfaces, err := net.Interfaces()
	return err == nil && len(interfaces) == 1 && interfaces[0].Flags&net.FlagUp == 0
}

// emulation matches what QEMU says of CPU features that only KVM has.
var emulation = regexp.MustCompile("TCG doesn't support requested feature|doesn't support hyperthreading|enabling topoext feature")

// recorder keeps warnings.
type recorder struct{ lines []string }

func (*recorder) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	if !emulation.MatchString(line) {
		r.lines = append(r.lines, line)
	}
	return nil
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }
