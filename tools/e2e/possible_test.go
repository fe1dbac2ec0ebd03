package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPossible has e2e.sh say, in one line and before it does anything, that it cannot run, or shall not.
func TestPossible(t *testing.T) {
	tests := map[string]struct {
		env  []string
		says []string
		code int
	}{
		"Skipped":         {env: []string{"CUVEE_E2E=skip"}, says: []string{"SKIPPED", "CUVEE_E2E=skip"}},
		"NoKubeconfig":    {env: []string{"CLUSTER=existing"}, says: []string{"KUBECONFIG, which is not set"}, code: 1},
		"AnotherCluster":  {env: []string{"CLUSTER=kind"}, says: []string{"CLUSTER=kind: want existing, or nothing"}, code: 1},
		"AnotherWish":     {env: []string{"CUVEE_E2E=no"}, says: []string{"CUVEE_E2E=no: want skip, or nothing"}, code: 1},
		"NotThisMachine":  {says: []string{"this takes", "CUVEE_E2E=skip skips", "CLUSTER=existing"}, code: 1},
		"SkippedAnywhere": {env: []string{"CUVEE_E2E=skip", "CLUSTER=existing"}, says: []string{"SKIPPED"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "./e2e.sh")
			cmd.Env = append([]string{"PATH=" + poorMachine(t), "CUVEE_CLUSTER=" + filepath.Join(t.TempDir(), "none")}, test.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != test.code {
				t.Errorf("the exit code is %d, want %d", got, test.code)
			}
			if strings.Count(string(out), "\n") != 1 {
				t.Errorf("it does not say one line:\n%s", out)
			}
			for _, says := range test.says {
				if !strings.Contains(string(out), says) {
					t.Errorf("it does not say %q:\n%s", says, out)
				}
			}
		})
	}
}

// poorMachine is a PATH on which there is nothing of Debian, which a cluster of our own takes.
func poorMachine(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"bash", "cat", "dirname", "env", "mountpoint", "realpath", "stat"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
