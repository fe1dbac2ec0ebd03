package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// machineType is one that both VM-Operator 2.3 to 4.0 and the QEMU of these tests have.
const machineType = "pc-q35-7.0"

// qemu is a QEMU whose guest does not run.
type qemu struct {
	*qmp.Monitor
	// ends are the test's ends of the socket pairs that QEMU has the other end of.
	ends map[string]net.Conn
}

// startQEMU starts QEMU with descriptors of these names, from number 3 on; the one that is called qmp is its monitor.
func startQEMU(t *testing.T, argv []string, fds []string) *qemu {
	t.Helper()
	q := &qemu{ends: make(map[string]net.Conn)}
	cmd := exec.Command(requireQEMU(t), argv...)
	if isolates() {
		cmd.SysProcAttr = isolation()
	}
	for _, name := range fds {
		theirs, ours := socketPair(t, name)
		defer theirs.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
		q.ends[name] = ours
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	q.Monitor = qmp.New(q.ends["qmp"])
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = q.Disconnect()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := q.ConnectContext(ctx); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("QEMU did not start: %v\n%s\n%q", err, said.String(), argv)
	}
	return q
}

func socketPair(t *testing.T, name string) (*os.File, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[1]), name)
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return os.NewFile(uintptr(fds[0]), name), conn
}

// ask runs a QMP command that has to work.
func ask[T any](t *testing.T, q *qemu, command string, args any) T {
	t.Helper()
	var result T
	if err := q.Execute(t.Context(), command, args, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// startOurs starts QEMU with the command line of a rendered VM, and options of the test's.
func startOurs(t *testing.T, m *machine, more ...string) *qemu {
	t.Helper()
	values := runner.Placeholders(m.config)
	fds := sorted(values.FD)
	for i, name := range fds {
		values.FD[name] = fmt.Sprint(3 + i)
	}
	if len(more) > 0 {
		fds = append(fds, extraFD)
		more = append([]string{"-chardev", fmt.Sprintf("socket,id=%s,fd=%d", extraFD, 2+len(fds))}, more...)
	}
	for name, c := range m.config.Resolve {
		values.Resolve[name] = firstThatWorks(t, c)
	}
	if n := m.config.Boot.NoCloud; n != nil {
		mustWrite(t, n.Image, make([]byte, 1440<<10))
	}
	if f := m.config.Boot.Firmware; f != nil {
		vars, err := os.ReadFile(values.Resolve[f.Choice]["vars"])
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, f.Vars, vars)
	}
	argv, err := runner.CommandLine(m.config.Boot, values)
	if err != nil {
		t.Fatal(err)
	}
	return startQEMU(t, append(argv, more...), fds)
}

// extraFD is the chardev, and the descriptor, of options that a test adds. QEMU wants that name for -qtest.
const extraFD = "qtest"

// firstThatWorks makes a choice in the way of the least surprise for a test.
func firstThatWorks(t *testing.T, c runner.Choice) map[string]string {
	t.Helper()
	switch c.Kind {
	case runner.KindMachine:
		return map[string]string{"type": machineType}
	case runner.KindAIO:
		return map[string]string{"aio": "threads", "direct": "off"}
	case runner.KindFirmware:
		i := slices.IndexFunc(c.Alternatives, func(a map[string]string) bool {
			_, code := os.Stat(a["code"])
			_, vars := os.Stat(a["vars"])
			return code == nil && vars == nil
		})
		if i < 0 {
			t.Skip("no UEFI firmware is installed (Debian: ovmf)")
		}
		return c.Alternatives[i]
	}
	return c.Alternatives[0]
}

// image makes a disk image for a command line of the test's own.
func image(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	mustWrite(t, path, make([]byte, 1<<20))
	return path
}
