package kustomize_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// shell runs commands as somebody does who follows a document.
type shell struct {
	*cluster
	env []string
}

func newShell(c *cluster) *shell {
	c.Helper()
	kubectl, err := filepath.Abs(os.Getenv("KUBEBUILDER_ASSETS"))
	c.must(err)
	kubeconfig := filepath.Join(c.TempDir(), "kubeconfig")
	c.must(testserver.WriteKubeconfig(kubeconfig, server.Config))
	path := kubectl + ":" + filepath.Dir(program(c.T, "cuvee")) + ":" + os.Getenv("PATH")
	return &shell{c, append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+c.TempDir(), "PATH="+path)}
}

// run runs a line in a directory.
func (s *shell) run(dir, line string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, s.env
	// What a command has started is not waited for.
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		s.Fatalf("%s: %v\n%s", line, err, out.String())
	}
}

// protectsNoClaims does what a controller of Kubernetes does that is not here: claims that nobody uses go when they are deleted.
func (s *shell) protectsNoClaims(namespace string) {
	background(s.T, func(ctx context.Context) {
		for ctx.Err() == nil {
			claims, err := s.core.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				claims = &corev1.PersistentVolumeClaimList{}
			}
			for _, claim := range claims.Items {
				if claim.DeletionTimestamp != nil {
					claim.Finalizers = nil
					// If it has changed, it is the next time.
					_, _ = s.core.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, &claim, metav1.UpdateOptions{})
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// blocks are a document's commands, a list for each block of them.
func blocks(t *testing.T, document string) [][]string {
	t.Helper()
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		out = append(out, strings.Split(strings.TrimSpace(m[1]), "\n"))
	}
	return out
}

// TestInstallDocument follows docs/install.md on the API server, from nothing to a VM and back, with the commands as they stand there.
// There is no kubelet: the manager of the Deployment is started by the test.
func TestInstallDocument(t *testing.T) {
	c := admin(t)
	s := newShell(c)
	// Other tests need it.
	defer func() {
		c.apply("", build(t, "crd")...)
		admin(t)
	}()
	const ns = "vmop-demo"
	s.protectsNoClaims(ns)
	dir := t.TempDir()
	checkout, site := filepath.Join(dir, "cuvee"), filepath.Join(dir, "site")
	for _, name := range []string{"kustomize", "examples"} {
		c.must(os.CopyFS(filepath.Join(checkout, name), os.DirFS(filepath.Join("..", name))))
	}
	c.must(os.Mkdir(site, 0o755))
	c.must(os.WriteFile(filepath.Join(site, "kustomization.yaml"), []byte(documentedSite(t)), 0o600))
	ran := 0
	for _, block := range blocks(t, "../docs/install.md") {
		// Images come to a cluster in ways of its own.
		if strings.HasPrefix(block[0], "kind ") {
			continue
		}
		in := checkout
		if strings.Contains(strings.Join(block, " "), "-k .") {
			in = site
		}
		for _, line := range block {
			switch {
			case strings.HasPrefix(line, "cuvee plan"):
				// As long as no pod has been made, what is rendered is there.
				c.rendered(ns, "hello")
			case line == "kubectl -n vmop-demo apply -f examples/hello.yaml":
				c.ready(c.start(ns))
			}
			t.Log(line)
			s.run(in, line)
			ran++
		}
	}
	if ran < 14 {
		t.Errorf("the document has %d commands only", ran)
	}
	if _, err := c.core.AppsV1().Deployments(ns).Get(t.Context(), "vm-operator", metav1.GetOptions{}); err == nil {
		t.Error("the manager is still there")
	}
	if claims, err := c.core.CoreV1().PersistentVolumeClaims(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(claims.Items) == 0 {
		t.Errorf("there are no claims of VMs any more: %v", err)
	}
}

// TestDevOverlay follows the comment of the overlay for those who work on the manager, which they start outside of the cluster.
func TestDevOverlay(t *testing.T) {
	c := admin(t)
	s := newShell(c)
	text, err := os.ReadFile("overlays/dev/kustomization.yaml")
	c.must(err)
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^#   (.*)$`).FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, m[1])
	}
	if len(lines) != 3 {
		t.Fatalf("the overlay says: %q", lines)
	}
	for _, line := range lines[:2] {
		s.run("..", line)
	}
	args, ok := strings.CutPrefix(lines[2], "go run ./cmd/cuvee-manager ")
	if !ok {
		t.Fatalf("the overlay says: %s", lines[2])
	}
	// The program is the same, and is where a test can end it. Ports may be in use here.
	args = strings.ReplaceAll(args, "kustomize/overlays", "overlays")
	m, err := testserver.StartProcess(append(s.env, "METRICS_BIND_ADDRESS=0", "HEALTH_PROBE_BIND_ADDRESS=0"), program(t, "cuvee-manager"), strings.Fields(args)...)
	c.must(err)
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Log(m.Log())
		}
	})
	c.vm("vmop-dev", "web", specWithDisk())
	c.rendered("vmop-dev", "web")
}
