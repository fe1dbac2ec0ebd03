package runner_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// The same life under KVM, as far as SeaBIOS.
func TestRunKVM(t *testing.T) {
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no KVM: %v", err)
	}
	kvm.Close()
	c := loadConfig(t, "minimal")
	c.Resolve["accelerator"] = runner.Choice{
		Kind: runner.KindAccelerator, Alternatives: []map[string]string{{"name": "kvm"}, {"name": "tcg"}},
	}
	out := newScreen(biosDone)
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	go func() {
		select {
		case <-out.seen:
		case <-ctx.Done():
		}
		cancel()
	}()
	end, err := runner.Run(ctx, c, runner.Options{ConsoleOut: out})
	if err != nil || end != runner.EndForced {
		t.Errorf("end is %q, error %v, want %q", end, err, runner.EndForced)
	}
	// SeaBIOS tells which hypervisor it is under.
	if !strings.Contains(out.String(), "Running on KVM") || !strings.Contains(out.String(), biosDone) {
		t.Errorf("console:\n%.20000s", out)
	}
}
