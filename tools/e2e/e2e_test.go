//go:build e2e

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for one thing. A machine that does other things beside, without KVM, takes its time.
var patience = flag.Duration("patience", 5*time.Minute, "how long a script waits for one thing")

// shutdowns is how often a guest shuts itself down where that is counted.
var shutdowns = flag.Int("shutdowns", 2, "how often a guest shuts itself down, and is looked at")

// begun is when the tests began, which progress is told from.
var begun = time.Now()

// TestScripts runs the scripts of testdata, as many at a time as -parallel says; -run TestScripts/NAME runs one.
func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestLong runs the scripts of testdata/long, which take too long for every change.
func TestLong(t *testing.T) { runScripts(t, filepath.Join("testdata", "long")) }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	c := &cluster{kubeconfig: os.Getenv("KUBECONFIG"), scripts: dir, local: os.Getenv("CLUSTER") != "existing"}
	if c.kubeconfig == "" {
		t.Fatal("KUBECONFIG is not set: run make e2e")
	}
	nodes, err := kube{kubeconfig: c.kubeconfig}.kubectl("get", "nodes", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	c.nodes = len(strings.Fields(nodes))
	t.Cleanup(func() { c.namespacesAreGone(t) })
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Setup:               c.setUp,
		Condition:           c.condition,
		Cmds:                commands,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// scriptName is the name of a script that is being set up: testscript names its directory after it.
func scriptName(env *testscript.Env) string {
	return strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
}
