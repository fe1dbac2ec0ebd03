package runner_test

import (
	"os"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// The TPM's state outlives the VM, its socket does not.
func TestTPM(t *testing.T) {
	c := loadConfig(t, "tpm")
	addGuest(t, c, guestPowersOff)
	for range 2 {
		end, err := runner.Run(t.Context(), c, runner.Options{})
		if err != nil || end != runner.EndGuest {
			t.Fatalf("end is %q, error %v", end, err)
		}
		if state, err := os.ReadDir(c.Boot.TPM.State); err != nil || len(state) == 0 {
			t.Errorf("TPM has no state: %v, %v", state, err)
		}
		if _, err := os.Stat(c.Boot.TPM.Socket); !os.IsNotExist(err) {
			t.Errorf("TPM's socket is still there: %v", err)
		}
	}
}
