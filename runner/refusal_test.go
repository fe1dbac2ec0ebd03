package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// A VM that cannot start says why in one error, and the exit code says what kind of failure it is.
func TestRunRefused(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*runner.Config)
		err    error
		text   string
		code   int
	}{
		"Option": {
			reason: "QEMU's own words about an option it does not take come through.",
			change: func(c *runner.Config) {
				c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: map[string]any{"driver": "no-such-device"}})
			},
			err: runner.ErrRefused, text: "'no-such-device' is not a valid device model name", code: runner.ExitRefused,
		},
		"Type": {
			reason: "So do those about a value of another type.",
			change: func(c *runner.Config) {
				c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: map[string]any{
					"driver": "virtio-rng-pci", "max-bytes": "many",
				}})
			},
			err: runner.ErrRefused, text: "max-bytes", code: runner.ExitRefused,
		},
		"MachineType": {
			reason: "A machine type that is the only alternative is QEMU's to refuse.",
			change: func(c *runner.Config) {
				c.Resolve["machine"] = runner.Choice{Kind: runner.KindMachine, Alternatives: []map[string]string{{"type": "pc-q35-99.0"}}}
			},
			err: runner.ErrRefused, text: "unsupported machine type", code: runner.ExitRefused,
		},
		"NoMonitor": {
			reason: "A VM that could not be controlled is not started.",
			change: func(c *runner.Config) { c.Boot.Args = c.Boot.Args[:8] },
			err:    runner.ErrReference, text: "fd qmp", code: runner.ExitFailed,
		},
		"NoQEMU": {
			reason: "What was looked for is named.",
			change: func(c *runner.Config) { c.Boot.Binaries = []string{"/no/qemu", "no-qemu"} },
			text:   "no QEMU found, tried: /no/qemu, no-qemu; Debian has it in the package qemu-system-x86", code: runner.ExitFailed,
		},
		"NoMetaData": {
			reason: "cloud-init does not work without meta-data.",
			change: func(c *runner.Config) {
				path := filepath.Join(c.Boot.RuntimeDir, "ci.img")
				c.Boot.NoCloud = &runner.NoCloud{Image: path, Files: map[string]string{"meta-data": "/no/meta-data"}}
			},
			err: os.ErrNotExist, text: "/no/meta-data", code: runner.ExitFailed,
		},
		"LongSocket": {
			reason: "The kernel's limit for a socket's path is named, instead of \"invalid argument\".",
			change: func(c *runner.Config) {
				c.Boot.TPM = &runner.TPM{State: c.Boot.DataDir, Socket: filepath.Join(c.Boot.RuntimeDir, strings.Repeat("x", 108))}
			},
			text: "longer than 107 bytes", code: runner.ExitFailed,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := loadConfig(t, "minimal")
			tc.change(c)
			end, err := runner.Run(t.Context(), c, runner.Options{})
			if err == nil || tc.err != nil && !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s\nerror is %v, want %v with %q", tc.reason, err, tc.err, tc.text)
			}
			if code := runner.ExitCode(end, err); code != tc.code {
				t.Errorf("%s\nexit code is %d, want %d", tc.reason, code, tc.code)
			}
		})
	}
}

// running runs a VM until the test ends, and returns when its guest runs.
func running(t *testing.T, c *runner.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	booting, done := make(chan struct{}), make(chan struct{})
	c.Live.PowerdownTimeout = 0
	go func() {
		defer close(done)
		_, err := runner.Run(ctx, c, runner.Options{Observe: func(s runner.State) {
			if s == runner.Booting {
				close(booting)
			}
		}})
		if err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-booting:
	case <-done:
		t.FailNow()
	}
}

// Two VMs never write to one image: the second one's error says which.
func TestImageInUse(t *testing.T) {
	first, second := loadConfig(t, "minimal"), loadConfig(t, "minimal")
	image := filepath.Join(t.TempDir(), "disk.img")
	for _, c := range []*runner.Config{first, second} {
		c.Boot.Images = []runner.Image{{Path: image, Size: 1 << 20}}
		addDisk(c, image)
	}
	running(t, first)
	_, err := runner.Run(t.Context(), second, runner.Options{})
	if !errors.Is(err, runner.ErrInUse) || !strings.Contains(err.Error(), image) {
		t.Errorf("error is %v, want ErrInUse with %s", err, image)
	}
	if code := runner.ExitCode("", err); code != runner.ExitRefused {
		t.Errorf("exit code is %d, want %d", code, runner.ExitRefused)
	}
}

// A second runner of a VM touches nothing of the first one's.
func TestRunningAlready(t *testing.T) {
	c := loadConfig(t, "minimal")
	running(t, c)
	_, err := runner.Run(t.Context(), c, runner.Options{})
	if !errors.Is(err, runner.ErrRunning) || !strings.Contains(err.Error(), c.Boot.DataDir) {
		t.Errorf("error is %v, want ErrRunning with %s", err, c.Boot.DataDir)
	}
}

// QEMU that ends by itself is a crash, however it ended.
func TestCrashed(t *testing.T) {
	c := loadConfig(t, "minimal")
	pidFile := filepath.Join(t.TempDir(), "pid")
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "pidfile", Value: pidFile})
	end, err := runner.Run(t.Context(), c, runner.Options{Observe: func(s runner.State) {
		if s == runner.Booting {
			killPIDFile(t, pidFile)
		}
	}})
	if !errors.Is(err, runner.ErrCrashed) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error is %v, want ErrCrashed with the signal", err)
	}
	if code := runner.ExitCode(end, err); code != runner.ExitCrashed {
		t.Errorf("exit code is %d, want %d", code, runner.ExitCrashed)
	}
}

func killPIDFile(t *testing.T, path string) {
	t.Helper()
	p, err := os.FindProcess(readPID(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}
