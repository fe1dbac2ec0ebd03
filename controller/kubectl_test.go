package controller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// kubectl runs kubectl as an administrator in the test's namespace, and returns what it says and whether it succeeds.
func (c *cluster) kubectl(stdin string, args ...string) (string, error) {
	c.Helper()
	dir := c.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	c.must(testserver.WriteKubeconfig(config, server.Config))
	cmd := exec.CommandContext(c.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"),
		append([]string{"--kubeconfig", config, "--cache-dir", dir, "--namespace", c.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}
