//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cluster is where the scripts run, with a manager for all of its namespaces.
type cluster struct {
	kubeconfig string
	// scripts is their directory.
	scripts string
	// local says that the nodes are on this machine: their files and processes are this machine's.
	local bool
	// nodes is how many there are.
	nodes int

	mu sync.Mutex
	// namespaces are those of scripts that have ended.
	namespaces []string
}

// condition is that of script lines which begin with [local], or with [nodes]: there are at least two.
func (c *cluster) condition(name string) (bool, error) {
	switch name {
	case "local":
		return c.local, nil
	case "nodes":
		return c.nodes > 1, nil
	}
	return false, fmt.Errorf("there is no condition %s", name)
}

// setUp makes a script's namespace, with all that VMs need in it, and a kubeconfig whose namespace that is.
func (c *cluster) setUp(env *testscript.Env) error {
	name := scriptName(env)
	start := time.Now()
	suffix := make([]byte, 2)
	if _, err := rand.Read(suffix); err != nil {
		return err
	}
	namespace := name + "-" + hex.EncodeToString(suffix)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	config := filepath.Join(env.WorkDir, ".kubeconfig")
	data, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		return err
	}
	k := kube{kubeconfig: config, namespace: namespace}
	for _, args := range [][]string{
		{"config", "set-context", "--current", "--namespace", namespace},
		{"create", "namespace", namespace},
		{"label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"},
		{"apply", "-k", filepath.Join(root, "kustomize", "runner")},
		{"apply", "-f", filepath.Join(root, "tools", "e2e", "repository.yaml")},
	} {
		if _, err := k.kubectl(args...); err != nil {
			return err
		}
	}
	env.Setenv("KUBECONFIG", config)
	env.Setenv("NAMESPACE", namespace)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("ROOT", root)
	env.Setenv("CUVEE_CLUSTER", cmp.Or(os.Getenv("CUVEE_CLUSTER"), filepath.Join(root, ".cache", "cluster")))
	env.Setenv("VOLUMES", filepath.Join(root, ".cache", "e2e", "volumes", namespace))
	env.Setenv("SHUTDOWNS", strconv.Itoa(*shutdowns))
	env.Setenv("STARTS", strconv.Itoa(*shutdowns+1))
	// Commands of the script set these.
	env.Setenv("URL", "")
	env.Setenv("PATH", filepath.Join(env.WorkDir, "bin")+":"+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	env.Values[variables{}] = variableNames(env.Vars)
	env.Values[kube{}] = k
	env.Values[running{}] = env.T()
	say("%-20s begins", name)
	env.Defer(func() { c.end(env, k, name, time.Since(start)) })
	return nil
}

// end tells how a script went, and why if it went wrong, and removes its namespace, guests and all.
func (c *cluster) end(env *testscript.Env, k kube, name string, took time.Duration) {
	result := "ok"
	t, ok := env.T().(testing.TB)
	switch {
	case ok && t.Failed():
		result = "FAILED"
		k.trouble(name)
	case ok && t.Skipped():
		result = "skipped, " + c.skipReason(name) + ","
	}
	say("%-20s %s after %.0f s", name, result, took.Seconds())
	// A namespace with a pod that may take minutes to end is looked at again after half of them, so its pods go before it.
	for _, args := range [][]string{
		{"delete", "vms", "--all", "--timeout=2m"},
		{"delete", "pods", "--all", "--grace-period=10", "--timeout=2m"},
		{"delete", "namespace", k.namespace, "--wait=false"},
	} {
		if _, err := k.kubectl(args...); err != nil {
			say("%s", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces = append(c.namespaces, k.namespace)
}

// skip is the line of a script that skips it where a condition does not hold.
var skip = regexp.MustCompile(`(?m)^\[!(\w+)\] skip '(.*)'$`)

// skipReason is why a script was skipped, which go test says only with -v, amid all else.
func (c *cluster) skipReason(name string) string {
	text, err := os.ReadFile(filepath.Join(c.scripts, name+".txtar"))
	if err != nil {
		return err.Error()
	}
	for _, line := range skip.FindAllStringSubmatch(string(text), -1) {
		if holds, err := c.condition(line[1]); err == nil && !holds {
			return line[2]
		}
	}
	return "for no reason that it gives"
}

// namespacesAreGone waits until nothing is left of the scripts: VMs, pods, and claims go with their namespace.
func (c *cluster) namespacesAreGone(t *testing.T) {
	if len(c.namespaces) == 0 {
		return
	}
	k := kube{kubeconfig: c.kubeconfig}
	args := []string{"wait", "--for=delete", "--timeout=" + patience.String()}
	for _, n := range c.namespaces {
		args = append(args, "namespace/"+n)
	}
	if _, err := k.kubectl(args...); err != nil {
		t.Errorf("namespaces of scripts stay: %v", err)
		for _, n := range c.namespaces {
			kube{kubeconfig: c.kubeconfig, namespace: n}.trouble(n)
		}
	}
	say("the namespaces are gone, with all that was in them")
}

// kube runs kubectl in a namespace.
type kube struct{ kubeconfig, namespace string }

func (k kube) kubectl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), *patience+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig)
	if k.namespace != "" {
		cmd.Args = append(cmd.Args, "--namespace", k.namespace)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

var told sync.Mutex

// say tells of the progress, as it is made: go test would keep it to the end.
func say(format string, args ...any) {
	told.Lock()
	defer told.Unlock()
	fmt.Printf("%5.0fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
}
