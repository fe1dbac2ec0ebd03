package cluster

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner"
)

// subject is a VM whose status the test says.
type subject struct {
	mu      sync.Mutex
	status  runner.Status
	changed chan struct{}
	events  chan runner.Event
}

func newSubject(s runner.Status) *subject {
	return &subject{status: s, changed: make(chan struct{}), events: make(chan runner.Event, 100)}
}

func (s *subject) Status() (runner.Status, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.changed
}

func (s *subject) Events() <-chan runner.Event { return s.events }

func (s *subject) is(status runner.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	close(s.changed)
	s.changed = make(chan struct{})
}

// reports runs a reporter until the test calls what is returned, or ends.
func reports(t *testing.T, s *transport, vm *subject) func() {
	t.Helper()
	r := newReporter(NewClient(s.credentials), testVM, vm, func() int64 { return 512 << 20 }, "1.2.3", quiet(), quick)
	r.limit = rate.NewLimiter(rate.Inf, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func TestReportRequest(t *testing.T) {
	s := serve(t, func(seen) (int, any) {
		return http.StatusOK, found("Running", condition{Type: "Running", Status: "True", LastTransitionTime: "2020-01-01T00:00:00Z"})
	})
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	reports(t, s, newSubject(runner.Status{
		State: runner.Booting, Since: since, CPUs: 2, RAM: 1 << 30, DisplayPasswordSerial: 3,
		Booted:   &runner.BootedConfig{Revision: "r1"},
		Resolved: map[string]map[string]string{"machine": {"type": "pc-q35-7.2"}},
	}))
	r := s.next(t, http.MethodPatch)
	if r.path != "/apis/vmoperator.jdrupes.org/v1/namespaces/vms/vms/web/status" || r.query != "fieldManager=cuvee.runner&force=true" {
		t.Errorf("patch of %s?%s", r.path, r.query)
	}
	if r.contentType != "application/apply-patch+yaml" {
		t.Errorf("content type is %s", r.contentType)
	}
	since3 := since.Format(time.RFC3339)
	want := map[string]any{
		"apiVersion": "vmoperator.jdrupes.org/v1",
		"kind":       "VirtualMachine",
		"metadata":   map[string]any{"name": "web", "namespace": "vms", "resourceVersion": "7"},
		"status": map[string]any{
			"cpus": 2.0, "ram": "1Gi", "displayPasswordSerial": 3.0, "runnerVersion": "1.2.3", "consoleClient": "",
			"booted":   map[string]any{"revision": "r1"},
			"resolved": map[string]any{"machine": map[string]any{"type": "pc-q35-7.2"}},
			"conditions": []any{
				map[string]any{"type": "Running", "status": "True", "reason": "VmStarted", "message": "The guest has been started.", "lastTransitionTime": "2020-01-01T00:00:00Z"},
				map[string]any{"type": "Booted", "status": "False", "reason": "VmStarted", "message": "The guest has been started.", "lastTransitionTime": since3},
				map[string]any{"type": "Paused", "status": "False", "reason": "NotPaused", "message": "", "lastTransitionTime": since3},
				map[string]any{"type": "LiveChangesApplied", "status": "True", "reason": "AsSpecified", "message": ""},
				map[string]any{"type": "GuestAgentConnected", "status": "False", "reason": "GuestAgentAbsent", "message": "No agent runs in the guest."},
				map[string]any{"type": "VmopAgentConnected", "status": "False", "reason": "VmopAgentDisconnected", "message": ""},
				map[string]any{"type": "UserLoggedIn", "status": "False", "reason": "NotRequested", "message": ""},
				map[string]any{"type": "ConsoleConnected", "status": "False", "reason": "Disconnected", "message": ""},
			},
		},
	}
	conditions := r.body["status"].(map[string]any)["conditions"].([]any)
	for _, c := range conditions[3:] {
		delete(c.(map[string]any), "lastTransitionTime")
	}
	if diff := cmp.Diff(want, r.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// ramOf is the RAM in a request for a status.
func ramOf(r seen) string {
	s, _ := r.body["status"].(map[string]any)
	ram, _ := s["ram"].(string)
	return ram
}

// While the API server is away the VM goes on, and when it is back it gets the newest status and none of those before.
func TestReportNewestAfterOutage(t *testing.T) {
	outages := map[string]func(seen) (int, any){
		"Away":      away,
		"Busy":      func(seen) (int, any) { return failure(http.StatusTooManyRequests, "TooManyRequests") },
		"Conflict":  func(seen) (int, any) { return failure(http.StatusConflict, "Conflict") },
		"Forbidden": func(seen) (int, any) { return failure(http.StatusForbidden, "Forbidden") },
		"NotThere":  func(seen) (int, any) { return failure(http.StatusNotFound, "NotFound") },
		"WritesFail": func(r seen) (int, any) {
			if r.method == http.MethodPatch {
				return failure(http.StatusInternalServerError, "InternalError")
			}
			return works(r)
		},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, outage)
			vm := newSubject(runner.Status{State: runner.Booting})
			reports(t, s, vm)
			// The reporter has noticed.
			method := http.MethodGet
			if name == "WritesFail" {
				method = http.MethodPatch
			}
			s.next(t, method)
			before := runtime.NumGoroutine()
			for i := range 1000 {
				vm.is(runner.Status{State: runner.Booting, RAM: int64(i)})
			}
			s.next(t, method)
			s.next(t, method)
			if n := runtime.NumGoroutine(); n > before+20 {
				t.Errorf("%d goroutines after 1000 statuses, %d before", n, before)
			}
			vm.is(runner.Status{State: runner.Booting, RAM: 512 << 20})
			// Attempts of before still fail; what comes after is the newest.
			s.answers(works)
			for {
				r := s.next(t, http.MethodPatch)
				if ramOf(r) == "512Mi" {
					return
				}
				if name != "WritesFail" {
					t.Fatalf("RAM of %s is reported, which was long ago", ramOf(r))
				}
			}
		})
	}
}

// Equal statuses are sent once.
func TestReportOnlyNews(t *testing.T) {
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting})
	reports(t, s, vm)
	s.next(t, http.MethodPatch)
	for range 10 {
		vm.is(runner.Status{State: runner.Booting, PID: 1})
	}
	vm.is(runner.Status{State: runner.Booted})
	r := s.next(t, http.MethodPatch)
	running := r.body["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
	if running["reason"] != "VmBooted" {
		t.Errorf("second report has the reason %s", running["reason"])
	}
}

// A report that fails may have arrived all the same, so that what was reported before it is news again.
func TestReportAfterDoubt(t *testing.T) {
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting})
	reports(t, s, vm)
	s.next(t, http.MethodPatch)
	s.answers(func(r seen) (int, any) {
		// The reporter learns of it with the next attempt only.
		vm.is(runner.Status{State: runner.Booting})
		s.answers(works)
		return away(r)
	})
	vm.is(runner.Status{State: runner.Paused})
	s.next(t, http.MethodPatch)
	r := s.next(t, http.MethodPatch)
	running := r.body["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
	if running["reason"] != "VmStarted" {
		t.Errorf("the last report has the reason %s", running["reason"])
	}
}

// A balloon on its way is not reported, but where it stays is, even if nothing else ever happens.
func TestReportSettles(t *testing.T) {
	t.Parallel()
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting, RAM: 1024 << 20})
	reports(t, s, vm)
	if got := ramOf(s.next(t, http.MethodPatch)); got != "1Gi" {
		t.Fatalf("first RAM is %s", got)
	}
	for mib := int64(1000); mib >= 700; mib -= 50 {
		vm.is(runner.Status{State: runner.Booting, RAM: mib << 20})
	}
	if got := ramOf(s.next(t, http.MethodPatch)); got != "700Mi" {
		t.Errorf("then RAM of %s is reported, want where it stays", got)
	}
}

// What is new when everything ends is still sent, though the first attempt fails; an API server that is away does not
// hold up the end for long.
func TestReportAtTheEnd(t *testing.T) {
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting})
	stop := reports(t, s, vm)
	s.next(t, http.MethodPatch)
	failures := 3
	s.answers(func(r seen) (int, any) {
		failures--
		if failures >= 0 {
			return away(r)
		}
		return works(r)
	})
	vm.is(runner.Status{State: runner.Stopped})
	stop()
	var last seen
	for len(s.arrivals) > 0 {
		last = <-s.arrivals
	}
	got := fmt.Sprint(last.body["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["reason"])
	if got != "VmStopped" {
		t.Errorf("last reason is %s", got)
	}
}

func TestReportEndsWithoutServer(t *testing.T) {
	s := serve(t, away)
	vm := newSubject(runner.Status{State: runner.Booting})
	p := quick
	p.last = 20 * time.Millisecond
	r := newReporter(NewClient(s.credentials), testVM, vm, func() int64 { return 0 }, "1", quiet(), p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("reporter does not end")
	}
}
