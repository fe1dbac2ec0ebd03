package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// apiServer takes what a runner sends. What a real API server makes of it is tested in runner/cluster; here it is
// about when the process sends what.
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []apiRequest
	arrived  chan struct{}
	// holder is who has the lease, if that is not the runner.
	holder string
	away   bool
}

type apiRequest struct {
	method, path, body string
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{arrived: make(chan struct{})}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) handle(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		panic(http.ErrAbortHandler)
	}
	s.requests = append(s.requests, apiRequest{req.Method, req.URL.Path, string(body)})
	close(s.arrived)
	s.arrived = make(chan struct{})
	answer := map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": "1"}, "spec": map[string]any{"vm": map[string]any{"state": "Running"}}}
	if strings.Contains(req.URL.Path, "/leases/") && s.holder != "" {
		if req.Method != http.MethodGet {
			w.WriteHeader(http.StatusConflict)
		}
		answer["spec"] = map[string]any{"holderIdentity": s.holder}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *apiServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// gets waits for a request of a method whose path or body has the text.
func (s *apiServer) gets(t *testing.T, method, text string) apiRequest {
	t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		arrived := s.arrived
		for _, r := range s.requests {
			if r.method == method && (strings.Contains(r.path, text) || strings.Contains(r.body, text)) {
				s.mu.Unlock()
				return r
			}
		}
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("no %s with %s; there were %v", method, text, s.requests)
		}
	}
}

// has tells whether there was such a request.
func (s *apiServer) has(method, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.method == method && (strings.Contains(r.path, text) || strings.Contains(r.body, text)) {
			return true
		}
	}
	return false
}

// in puts a pod into the cluster of a server.
func (p *pod) in(t *testing.T, s *apiServer) *pod {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "token", []byte("secret"))
	p.write(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	p.env = []string{
		"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port, "CUVEE_CREDENTIALS=" + p.dir,
		"POD_NAMESPACE=vms", "POD_NAME=web-0", "POD_UID=p-1",
	}
	return p
}

// The cluster hears of a VM's life, to the end. Its guest is stopped by SIGTERM.
func TestReports(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	r := newPod(t, guestWaits, nil).in(t, s).start(t)
	s.gets(t, http.MethodPatch, `"reason":"VmStarted"`)
	s.gets(t, http.MethodPost, `"reason":"RunnerStarted"`)
	s.gets(t, http.MethodPost, `"reason":"VmStarted"`)
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	last := s.gets(t, http.MethodPatch, `"reason":"VmStopped"`)
	if last.path != "/apis/vmoperator.jdrupes.org/v1/namespaces/vms/vms/web/status" || !strings.Contains(last.body, `"cpus":0,"ram":"0"`) {
		t.Errorf("last report: %v", last)
	}
	if !s.has(http.MethodPost, `"reason":"PoweredDown"`) {
		t.Error("no event of the end")
	}
	if s.has(http.MethodDelete, "") || s.has(http.MethodPatch, `"spec"`) {
		t.Error("the pod was deleted, or the VM changed")
	}
}

// A guest's shutdown marks the VM as stopped, and the runner waits for the end of its pod.
func TestGuestShutdownStops(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	r := newPod(t, guestPowersOff, live("guestShutdownStops", true)).in(t, s).start(t)
	s.gets(t, http.MethodPatch, `{"vm":{"state":"Stopped"}}`)
	s.gets(t, http.MethodPatch, `"reason":"VmStopped"`)
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	if s.has(http.MethodDelete, "") {
		t.Error("the pod was deleted, too")
	}
}

// Or its pod is deleted, so that another one starts the VM again.
func TestGuestShutdownRestarts(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	r := newPod(t, guestPowersOff, live("guestShutdownStops", false)).in(t, s).start(t)
	deleted := s.gets(t, http.MethodDelete, "")
	if deleted.path != "/api/v1/namespaces/vms/pods/web-0" || !strings.Contains(deleted.body, `"preconditions":{"uid":"p-1"}`) {
		t.Errorf("deleted %v", deleted)
	}
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	if s.has(http.MethodPatch, `"state":"Stopped"`) {
		t.Error("the VM was stopped, too")
	}
}

// A VM starts, runs and ends without its API server, only that nobody hears of it.
func TestWithoutAPIServer(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	s.away = true
	r := newPod(t, guestWaits, nil).in(t, s).start(t)
	r.says(t, "cannot report the status")
	r.says(t, "VM is Booting")
	begun := time.Now()
	r.signal(t, syscall.SIGTERM)
	r.says(t, "VM is Stopped")
	stopped := time.Now()
	r.ends(t, 0)
	if took := time.Since(stopped); took > patience/2 {
		t.Errorf("took %s to end after the VM had; the whole end %s", took, time.Since(begun))
	}
}

// leased gives a config a lease.
func leased(config map[string]any) {
	config["boot"].(map[string]any)["lease"] = map[string]any{"name": "web-disks", "duration": 6}
}

// While another one holds the lease nothing is started, and that can be called off.
func TestLeaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	s.holder = "web-0/other"
	r := newPod(t, guestHalts, leased).in(t, s).start(t)
	r.says(t, "lease is held by web-0/other")
	s.gets(t, http.MethodPatch, `"message":"lease is held by web-0/other"`)
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	if strings.Contains(r.out.String(), "VM is") {
		t.Error("the VM was started")
	}
}

// A lease that another one has taken ends QEMU at once, and the runner tells how.
func TestLeaseIsLost(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	r := newPod(t, guestHalts, leased).in(t, s).start(t)
	r.says(t, "VM is Booting")
	qemu := qemuOf(t, r)
	s.set(func() { s.holder = "web-0/other" })
	r.ends(t, 4)
	r.says(t, "lease lost: web-0/other holds it")
	if err := unix.Kill(qemu, 0); err == nil {
		t.Error("QEMU is still there")
	}
}

// In a cluster a runner has to know its pod.
func TestPodUnknown(t *testing.T) {
	t.Parallel()
	p := newPod(t, guestHalts, nil).in(t, newAPIServer(t))
	p.env = append(p.env, "POD_UID=")
	r := p.start(t)
	r.ends(t, 1)
	r.says(t, "POD_UID")
}

// A secret is in no log, and the token is not either.
func TestNoTokenInLog(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	s.away = true
	r := newPod(t, guestPowersOff, nil).in(t, s).start(t, "--log-level", "debug")
	r.says(t, "cannot report the status")
	r.says(t, "VM is Stopped")
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	if strings.Contains(r.out.String(), "secret") {
		t.Error("the token is in the log")
	}
}
