//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// here is what runs here for each line of the README's quick start; "" is nothing. A line that is not here fails the test.
var here = map[string]string{
	// The cluster is there already.
	"kind create cluster": "",
	"curl -sfL https://get.k3s.io | sh -s - --write-kubeconfig-mode 644": "",

	// k3s is the node's containerd, see k3sProgram. That of kind takes docker.
	"make load-k3s":  "make load-k3s",
	"make load-kind": "make load-k3s",

	"kubectl apply -k kustomize/overlays/quickstart":                                      "kubectl apply -k kustomize/overlays/quickstart",
	"kubectl apply -f examples/quickstart.yaml":                                           "kubectl apply -f examples/quickstart.yaml",
	"bin/cuvee console hello -n quickstart --wait":                                        "bin/cuvee console hello -n quickstart --wait",
	"bin/cuvee console hello -n quickstart --wait --kubeconfig /etc/rancher/k3s/k3s.yaml": "bin/cuvee console hello -n quickstart --wait --kubeconfig $KUBECONFIG",
}

// TestQuickStart follows the README's quick starts on a cluster that has nothing of Cuvee, word for word.
func TestQuickStart(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?m)^<!-- quickstart (.*) -->\n```sh\n((?:.+\n)+)```").FindAllStringSubmatch(string(page), -1)
	if os.Getenv("CLUSTER") == "existing" {
		t.Skip("the nodes are not of this machine")
	}
	if len(blocks) != 2 {
		t.Fatalf("the README has %d quick starts, want 2", len(blocks))
	}
	t.Setenv("PATH", k3sProgram(t)+":"+os.Getenv("PATH"))
	for _, block := range blocks {
		t.Run(block[1], func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(block[2]), "\n")
			if len(lines) > 5 {
				t.Errorf("there are %d commands, want 5 at most", len(lines))
			}
			for _, line := range lines {
				command, ok := here[line]
				if !ok {
					t.Fatalf("it is not known what this line is here: %s", line)
				}
				begin := time.Now()
				switch {
				case command == "":
					continue
				case strings.Contains(line, " console "):
					useConsole(t, command)
				default:
					run(t, command)
				}
				say("%4.0f s  %s", time.Since(begin).Seconds(), line)
			}
			for _, remove := range []string{"kubectl delete vms --all -n quickstart", "kubectl delete namespace quickstart"} {
				if !strings.Contains(string(page), "`"+remove+"`") {
					t.Errorf("the README does not say %q any more", remove)
				}
				run(t, remove+" --timeout="+patience.String())
			}
		})
	}
}

// run runs a line as a user types it in the checkout.
func run(t *testing.T, line string) {
	t.Helper()
	cmd := shell(t.Context(), line)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = "../.."
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// useConsole runs a line on a terminal, sees the guest boot, has it calculate, and leaves by the key that the README names.
func useConsole(t *testing.T, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *patience)
	defer cancel()
	cmd := shell(ctx, `exec script -qefc "$LINE" /dev/null`)
	cmd.Env = append(os.Environ(), "LINE="+line)
	var seen screen
	cmd.Stdout, cmd.Stderr = &seen, &seen
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for _, step := range []struct{ shows, typed string }{
		{"(?m)^Hello from a virtual machine in a pod\r?$", ""},
		// What is typed before would be lost.
		{"(?m)^hello:/# ", "echo $((6 * 7))\r"},
		{"(?m)^42\r?$", "\x1d"},
	} {
		if !seen.await(ctx, regexp.MustCompile(step.shows)) {
			quickStartTrouble()
			t.Fatalf("%s does not show %q within %s:\n%s", line, step.shows, *patience, &seen)
		}
		if _, err := keys.Write([]byte(step.typed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("%s: %v\n%s", line, err, &seen)
	}
}

func quickStartTrouble() {
	kube{kubeconfig: os.Getenv("KUBECONFIG"), namespace: "quickstart"}.trouble("quickstart")
}

// screen is what a terminal has shown.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *screen) await(ctx context.Context, want *regexp.Regexp) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !want.MatchString(s.String()) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// k3sProgram is the directory of a program that is k3s as far as the quick start goes: `k3s ctr` is for the containerd of each node.
func k3sProgram(t *testing.T) string {
	t.Helper()
	work, err := filepath.Abs(cmp.Or(os.Getenv("CUVEE_CLUSTER"), "../../.cache/cluster"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Abs("../../.cache/kube-node")
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/bash
set -e
[[ $1 == ctr ]] || exit 2
shift
ctr=(` + kept + `/containerd-*/ctr)
for pid in ` + work + `/nodes/node*/pid; do
	"${ctr[-1]}" -a "/proc/$(<"$pid")/root/run/containerd/containerd.sock" -n k8s.io "$@"
	# What there is, is on all of them.
	[[ $2 != ls ]] || break
done
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "k3s"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
