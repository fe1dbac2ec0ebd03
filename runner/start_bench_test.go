package runner_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// BenchmarkStart measures from the config to the guest's first instruction, and back to nothing.
// BenchmarkStartQEMU does the same with the same QEMU alone.
func BenchmarkStart(b *testing.B) {
	c := benchConfig(b)
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		end, err := runner.Run(ctx, c, runner.Options{Observe: func(s runner.State) {
			if s == runner.Booting {
				b.StopTimer()
				cancel()
			}
		}})
		if err != nil || end != runner.EndForced {
			b.Fatalf("end is %q, error %v", end, err)
		}
		b.StartTimer()
	}
}

func BenchmarkStartQEMU(b *testing.B) {
	c := benchConfig(b)
	argv, err := runner.CommandLine(c.Boot, runner.Values{
		Resolve: map[string]map[string]string{"accelerator": {"name": "tcg"}, "machine": {"type": "q35"}},
		FD:      map[string]string{"qmp": "3", "serial0": "4"},
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		monitor, qmpFD := benchPair(b)
		serial, serialFD := benchPair(b)
		cmd := exec.Command("qemu-system-x86_64", argv...)
		cmd.ExtraFiles = []*os.File{qmpFD, serialFD}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		m := qmp.New(monitor)
		if err := m.Connect(); err != nil {
			b.Fatal(err)
		}
		if err := m.Execute(b.Context(), "cont", nil, nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m.Disconnect()
		serial.Close()
		qmpFD.Close()
		serialFD.Close()
		b.StartTimer()
	}
}

func benchConfig(b *testing.B) *runner.Config {
	b.Helper()
	data, err := os.ReadFile("testdata/config/1.0/minimal.json")
	if err != nil {
		b.Fatal(err)
	}
	c, err := runner.ParseConfig(data)
	if err != nil {
		b.Fatal(err)
	}
	c.Boot.DataDir, c.Boot.RuntimeDir = b.TempDir(), b.TempDir()
	c.Live.PowerdownTimeout = 0
	return c
}

func benchPair(b *testing.B) (net.Conn, *os.File) {
	b.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		b.Fatal(err)
	}
	return conn, os.NewFile(uintptr(fds[1]), "theirs")
}
