package main

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 5 * time.Minute

// kubernetes returns the directory with Kubernetes' programs.
func kubernetes(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(dir, "kube-up")); dir != "" && err == nil {
		return dir
	}
	const lacks = "no kube-up in KUBEBUILDER_ASSETS=%q: run make kube, and set it to the directory that it prints"
	if os.Getenv("CI") != "" {
		t.Fatalf(lacks, dir)
	}
	t.Skipf(lacks, dir)
	return ""
}

// up starts a control plane and returns once it is ready. The writer is its standard input.
func up(t *testing.T, dir string, args ...string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(kubernetes(t), "kube-up"), append([]string{"-dir", dir}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != filepath.Join(dir, "admin.kubeconfig") {
		t.Fatalf("kube-up says %q, %v", line, err)
	}
	return cmd, in
}

// gone waits until no process has the directory on its command line.
func gone(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left := with(t, dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", left)
		}
		<-tick.C
	}
}

func with(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, file := range files {
		// What has ended meanwhile cannot be read.
		line, _ := os.ReadFile(file)
		if pid := filepath.Base(filepath.Dir(file)); strings.Contains(string(line), dir+"/") && pid != strconv.Itoa(os.Getpid()) {
			left = append(left, pid)
		}
	}
	return left
}

// TestControllers: a Deployment becomes pods, which run as far as anybody can tell; the end of the input is the end of it all.
func TestControllers(t *testing.T) {
	dir := t.TempDir()
	cmd, in := up(t, dir, "-kwok", "2")
	for _, args := range [][]string{
		{"create", "deployment", "web", "--image=web", "--replicas=3"},
		{"rollout", "status", "deployment/web", "--timeout=120s"},
	} {
		kubectl := exec.CommandContext(t.Context(), filepath.Join(kubernetes(t), "kubectl"), args...)
		kubectl.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "admin.kubeconfig"))
		if out, err := kubectl.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	gone(t, dir)
}

// TestKilled: nothing is left of it.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := up(t, dir)
	if len(with(t, dir)) < 4 {
		t.Fatal("there are no programs")
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, dir)
}

// TestProgramEnds: it is told which one, and the others do not stay.
func TestProgramEnds(t *testing.T) {
	for flag, program := range map[string]string{"-apiserver-arg": "kube-apiserver", "-controller-manager-arg": "kube-controller-manager"} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), filepath.Join(kubernetes(t), "kube-up"), "-dir", dir, flag, "--no-such-flag")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), program+" has ended (exit status 1)") || !strings.Contains(string(out), "no-such-flag") {
				t.Errorf("%v: %s", err, out)
			}
			gone(t, dir)
		})
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"NoAddress":  {[]string{"-node", "a"}, "want NAME=ADDRESS"},
		"NoName":     {[]string{"-node", "=10.0.0.1"}, "want NAME=ADDRESS"},
		"Argument":   {[]string{"up"}, `unexpected argument "up"`},
		"FewerNodes": {[]string{"-kwok", "-1"}, "want a number of nodes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	o, err := parse([]string{"-node", "a=10.0.0.1", "-node", "b=fd00::2"})
	if err != nil {
		t.Fatal(err)
	}
	want := []node{{"a", netip.MustParseAddr("10.0.0.1")}, {"b", netip.MustParseAddr("fd00::2")}}
	if diff := cmp.Diff(want, o.nodes, cmp.AllowUnexported(node{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestNewDirNotEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := write(filepath.Join(dir, "data"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := newDir(dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v", err)
	}
}
