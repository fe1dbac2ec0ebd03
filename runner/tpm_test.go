package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// The TPM's state outlives the VM, its socket does not.
func TestTPM(t *testing.T) {
	c := loadConfig(t, "tpm")
	addGuest(t, c, guestPowersOff)
	var states [][]byte
	for range 2 {
		end, err := runner.Run(t.Context(), c, runner.Options{})
		if err != nil || end != runner.EndGuest {
			t.Fatalf("end is %q, error %v", end, err)
		}
		state, err := os.ReadFile(filepath.Join(c.Boot.TPM.State, "tpm2-00.permall"))
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
		if _, err := os.Stat(c.Boot.TPM.Socket); !os.IsNotExist(err) {
			t.Errorf("TPM's socket is still there: %v", err)
		}
	}
	// A start changes counters. A TPM that were made anew would have other seeds, of 64 random bytes each.
	if n := longestDifference(states[0], states[1]); n >= 32 {
		t.Errorf("the second start has another TPM: %d bytes in a row differ", n)
	}
	if err := os.RemoveAll(c.Boot.TPM.State); err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Run(t.Context(), c, runner.Options{}); err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(c.Boot.TPM.State, "tpm2-00.permall"))
	if err != nil {
		t.Fatal(err)
	}
	if n := longestDifference(states[0], other); n < 32 {
		t.Errorf("a new TPM differs in %d bytes in a row only, so that nothing is shown", n)
	}
}

// longestDifference returns the most bytes in a row that differ.
func longestDifference(a, b []byte) int {
	if len(a) != len(b) {
		return max(len(a), len(b))
	}
	longest, run := 0, 0
	for i := range a {
		run++
		if a[i] == b[i] {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
