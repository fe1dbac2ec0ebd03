package kvm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// patience is much longer than any guest here should take, and shorter than a hang.
const patience = 10 * time.Second

// TestProbe compares the probe's answer with what the host's kernel says that KVM is made of.
func TestProbe(t *testing.T) {
	start := time.Now()
	err := Probe(t.Context())
	if d := time.Since(start); d > patience {
		t.Errorf("the probe took %v", d)
	}
	t.Logf("Probe: %v", err)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		t.Skip("no /dev/kvm for this user")
	case loaded("kvm_intel"), loaded("kvm_amd"):
		if err != nil {
			t.Errorf("KVM with hardware support: got %v, want nil", err)
		}
	case loaded("kvm_pvm"):
		if !errors.Is(err, ErrUnusable) {
			t.Errorf("KVM that interprets a guest's kernel: got %v, want %v", err, ErrUnusable)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

func loaded(module string) bool {
	_, err := os.Stat("/sys/module/" + module)
	return err == nil
}

func TestProbeEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestRunGuest runs guests that do not depend on how KVM runs them.
func TestRunGuest(t *testing.T) {
	requireKVM(t)
	errEnd := errors.New("the test's end")
	spin := step{"spinning", []byte{0xeb, 0xfe}}           // jmp to itself
	halt := step{"halting", []byte{0xfa, 0xf4}}            // cli, hlt
	fault := step{"faulting", []byte{0x0f, 0x0b}}          // ud2, without a handler
	stray := step{"writing elsewhere", []byte{0xe6, 0x99}} // out 0x99, al
	cases := map[string]struct {
		reason string
		steps  []step
		limit  time.Duration
		want   string
	}{
		"Runs":          {"the probe's program is right, given time", []step{count(1000), wake()}, patience, ""},
		"WakesTwice":    {"a handled interrupt leaves the APIC ready for another", []step{wake(), wake()}, patience, ""},
		"Spins":         {"a CPU in the guest is taken back", []step{count(1), spin}, 50 * time.Millisecond, "spinning: the test's end"},
		"Halts":         {"a CPU that waits in the host's kernel is taken back", []step{halt}, 50 * time.Millisecond, "halting: the test's end"},
		"Faults":        {"a guest that ends is an error", []step{count(1), fault}, patience, "faulting: the guest ended with KVM's exit reason 8"},
		"WritesToOther": {"only the step's own port says that it is done", []step{stray}, patience, "writing elsewhere: the guest ended with KVM's exit reason 2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.limit, errEnd)
			defer cancel()
			got := ""
			if err := runGuest(ctx, c.steps); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%s: got error %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

func TestProbeLeavesNothingOpen(t *testing.T) {
	requireKVM(t)
	before := openFiles(t)
	for range 3 {
		_ = Probe(t.Context())
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d open files after probing, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func requireKVM(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
