package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// What is in this file runs against a real API server: KUBEBUILDER_ASSETS is a directory with the programs etcd and kube-apiserver,
// which make kube builds and make test sets.

// ready is how long an API server may take to answer.
const ready = 2 * time.Minute

const (
	vmsPath = "/apis/vmoperator.jdrupes.org/v1/namespaces/vms/vms"
	vmText  = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: web, namespace: vms}
spec: {vm: {state: Running, maximumRam: 1Gi}}`
)

// newAPIServer starts an API server with the CustomResourceDefinition and one VirtualMachine.
func newAPIServer(t *testing.T) *Client {
	t.Helper()
	assets := kubernetes(t)
	dir := t.TempDir()
	etcd := "http://127.0.0.1:" + freePort(t)
	background(t, filepath.Join(assets, "etcd"), "--data-dir", dir+"/etcd", "--unsafe-no-fsync",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:"+freePort(t))

	write(t, dir+"/tokens", "admin,admin,admin,system:masters\n")
	write(t, dir+"/token", "admin\n")
	writeKey(t, dir+"/sa.key")
	port := freePort(t)
	background(t, filepath.Join(assets, "kube-apiserver"), "--etcd-servers", etcd, "--secure-port", port, "--bind-address", "127.0.0.1",
		"--cert-dir", dir, "--token-auth-file", dir+"/tokens", "--authorization-mode", "RBAC", "--endpoint-reconciler-type", "none",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", dir+"/sa.key",
		"--service-account-signing-key-file", dir+"/sa.key", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount")

	c := NewClient(Credentials{Server: "https://127.0.0.1:" + port, TokenFile: dir + "/token", CAFile: dir + "/apiserver.crt"})
	crd, err := os.ReadFile("../../kustomize/crd/vmoperator.jdrupes.org_vms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(crd))
	eventually(t, c, "/api/v1/namespaces", "apiVersion: v1\nkind: Namespace\nmetadata: {name: vms}")
	eventually(t, c, vmsPath, vmText)
	return c
}

// kubernetes returns the directory with Kubernetes' programs.
func kubernetes(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); dir != "" && err == nil {
		return dir
	}
	const lacks = "no kube-apiserver in KUBEBUILDER_ASSETS=%q: run make kube, and set it to the directory that it prints"
	if os.Getenv("CI") != "" {
		t.Fatalf(lacks, dir)
	}
	t.Skipf(lacks, dir)
	return ""
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := freeport.Next()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// background runs a program until the test ends, or is killed.
func background(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// Pdeathsig is about the thread that started the program: it must not end before.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// eventually creates an object, as soon as the API server takes it.
func eventually(t *testing.T, c *Client, path, text string) {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ready)
	defer cancel()
	var last error
	ok := retry(ctx, quick, quiet(), "create "+path, func(ctx context.Context) error {
		last = c.do(ctx, request{method: http.MethodPost, path: path, contentType: contentJSON, body: object}, nil)
		if hasCode(last, http.StatusConflict) {
			last = nil
		}
		return last
	})
	if !ok {
		t.Fatalf("create %s: %v", path, last)
	}
}

// whole is an object with all its fields.
func whole(t *testing.T, c *Client, path string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := c.do(t.Context(), request{method: http.MethodGet, path: path}, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func versionOf(object map[string]any) string {
	return fmt.Sprint(object["metadata"].(map[string]any)["resourceVersion"])
}

func TestAPIServer(t *testing.T) {
	c := newAPIServer(t)
	t.Run("Status", func(t *testing.T) { testStatus(t, c) })
	t.Run("Foreign", func(t *testing.T) { testForeign(t, c) })
	t.Run("Events", func(t *testing.T) { testEvents(t, c) })
	t.Run("Lease", func(t *testing.T) { testLease(t, c) })
	t.Run("Stop", func(t *testing.T) { testStop(t, c) })
	t.Run("Pod", func(t *testing.T) { testPodDeletion(t, c) })
}

// testStatus: all that the runner says is kept, a manager's part is left alone, and what is no news writes nothing.
func testStatus(t *testing.T, c *Client) {
	managers := map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "web", "namespace": "vms"},
		"status": map[string]any{"nodeName": "n1", "cpus": 0, "conditions": []any{map[string]any{
			"type": "RestartRequired", "status": "False", "reason": "Current", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z",
		}}},
	}
	err := c.do(t.Context(), request{
		method: http.MethodPatch, path: testVM.path() + "/status", contentType: contentApply,
		query: map[string][]string{"fieldManager": {"cuvee.vm"}}, body: managers,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	vm := newSubject(runner.Status{})
	r := newReporter(c, testVM, vm, func() int64 { return 0 }, "1.2.3", quiet(), quick)
	var version string
	for _, s := range lifetime() {
		if _, err := r.report(t.Context(), s); err != nil {
			t.Fatalf("report %q: %v", s.State, err)
		}
		before := whole(t, c, testVM.path())
		// As after an attempt of which it is not known whether it arrived.
		r.sent = nil
		if _, err := r.report(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		after := whole(t, c, testVM.path())
		if version = versionOf(after); version != versionOf(before) {
			t.Errorf("the same status of %q is another write", s.State)
		}
	}
	object := whole(t, c, testVM.path())
	status := object["status"].(map[string]any)
	own := len((&conditions{}).of(runner.Status{}, time.Now()))
	if status["nodeName"] != "n1" || len(status["conditions"].([]any)) != own+1 {
		t.Errorf("status is %v, want the manager's part, too", status)
	}
	if status["cpus"] != 2.0 || status["ram"] != "1536Mi" || status["runnerVersion"] != "1.2.3" {
		t.Errorf("status is %v", status)
	}
}

// testForeign: what others write does not hold up a status, and one of the same name that was made later is not written to.
func testForeign(t *testing.T, c *Client) {
	r := newReporter(c, testVM, newSubject(runner.Status{}), func() int64 { return 0 }, "1.2.3", quiet(), quick)
	for i, state := range []runner.State{runner.Booting, runner.Booted} {
		if _, err := r.report(t.Context(), runner.Status{State: state}); err != nil {
			t.Fatalf("report %q: %v", state, err)
		}
		err := c.do(t.Context(), request{
			method: http.MethodPatch, path: testVM.path(), contentType: contentMerge,
			body: map[string]any{"metadata": map[string]any{"labels": map[string]any{"n": fmt.Sprint(i)}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.do(t.Context(), request{method: http.MethodDelete, path: testVM.path()}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, vmsPath, vmText)
	version := versionOf(whole(t, c, testVM.path()))
	if _, err := r.report(t.Context(), runner.Status{State: runner.Stopped}); !errors.Is(err, errReplaced) {
		t.Errorf("report after the VirtualMachine was made anew: %v", err)
	}
	if versionOf(whole(t, c, testVM.path())) != version {
		t.Error("another VirtualMachine was written to")
	}
}

func testEvents(t *testing.T, c *Client) {
	vm := newSubject(runner.Status{})
	at := time.Now()
	// The second one is what is sent again when it is not known whether it arrived.
	vm.events <- runner.Event{Time: at, Reason: runner.ReasonStarted}
	vm.events <- runner.Event{Time: at, Reason: runner.ReasonStarted}
	vm.events <- runner.Event{Time: at.Add(1), Warning: true, Reason: runner.ReasonPaused, Message: strings.Repeat("x", 2000)}
	close(vm.events)
	newEventWriter(c, testVM, testPod, vm, quiet(), quick).Run(t.Context())
	items := whole(t, c, "/apis/events.k8s.io/v1/namespaces/vms/events")["items"].([]any)
	if len(items) != 2 {
		t.Errorf("%d events, want 2: %v", len(items), items)
	}
}

func testLease(t *testing.T, c *Client) {
	o := LeaseOptions{Name: "web-disks", Duration: 2 * time.Second}
	first := NewLease(c, testVM, Pod{Name: "web-0", UID: "1"}, o, quiet())
	second := NewLease(c, testVM, Pod{Name: "web-0", UID: "2"}, o, quiet())
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	var seen leaseObject
	var since time.Time
	if err := second.try(t.Context(), &seen, &since); err == nil || !strings.Contains(err.Error(), "web-0/1") {
		t.Errorf("second try: %v, want the first one named", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.try(t.Context(), &seen, &since); err != nil {
		t.Errorf("a lease that was given back: %v", err)
	}
	if err := first.renew(t.Context()); err == nil {
		t.Error("first one renews what it has not")
	}
	path := "/apis/coordination.k8s.io/v1/namespaces/vms/leases/web-disks"
	if err := c.do(t.Context(), request{method: http.MethodDelete, path: path}, nil); err != nil {
		t.Fatal(err)
	}
	if err := second.renew(t.Context()); err != nil {
		t.Errorf("a lease that was deleted: %v", err)
	}
}

func testStop(t *testing.T, c *Client) {
	if err := c.stop(t.Context(), testVM); err != nil {
		t.Fatal(err)
	}
	object := whole(t, c, testVM.path())
	spec := object["spec"].(map[string]any)["vm"].(map[string]any)
	if spec["state"] != "Stopped" || spec["maximumRam"] != "1Gi" {
		t.Errorf("spec.vm is %v", spec)
	}
	if err := c.stop(t.Context(), testVM); err != nil {
		t.Fatal(err)
	}
	if versionOf(whole(t, c, testVM.path())) != versionOf(object) {
		t.Error("a stopped VM is written to")
	}
}

func testPodDeletion(t *testing.T, c *Client) {
	const pods = "/api/v1/namespaces/vms/pods"
	eventually(t, c, pods, "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0, namespace: vms}\nspec: {containers: [{name: c, image: i}]}")
	pod := Pod{Namespace: "vms", Name: "web-0", UID: "00000000-0000-0000-0000-000000000000"}
	if err := c.delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.UID = whole(t, c, pods+"/web-0")["metadata"].(map[string]any)["uid"].(string)
	if err := c.delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	err := c.do(t.Context(), request{method: http.MethodGet, path: pods + "/web-0"}, nil)
	if !hasCode(err, http.StatusNotFound) {
		t.Errorf("pod is still there: %v", err)
	}
	if err := c.delete(t.Context(), pod); err != nil {
		t.Errorf("delete what is gone: %v", err)
	}
}
