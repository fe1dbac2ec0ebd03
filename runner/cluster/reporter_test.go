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
	_, stop := reportsAt(t, s, vm, quick)
	return stop
}

func reportsAt(t *testing.T, s *transport, vm *subject, p pace) (*Reporter, func()) {
	t.Helper()
	r := newReporter(NewClient(s.credentials), testVM, vm, func() int64 { return 512 << 20 }, "1.2.3", quiet(), p)
	r.limit = rate.NewLimiter(rate.Inf, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return r, stop
}

// Who reads what a disk was filled with can tell whose pod has said so.
func TestContentsNameThePod(t *testing.T) {
	t.Parallel()
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting, Imports: []runner.Import{{Disk: "system-disk", State: runner.Filled}}})
	r := NewReporter(NewClient(s.credentials), testVM, Pod{UID: "1-2-3"}, vm, func() int64 { return 0 }, "1.2.3", quiet())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	status, _ := s.next(t, http.MethodPatch).body["status"].(map[string]any)
	want := []any{map[string]any{"disk": "system-disk", "result": "Filled", "pod": "1-2-3"}}
	if diff := cmp.Diff(want, status["contents"]); diff != "" {
		t.Error(diff)
	}
}

func TestReportRequest(t *testing.T) {
	s := serve(t, func(seen) (int, any) {
		return http.StatusOK, found("Running", condition{Type: "Running", Status: "True", LastTransitionTime: "2020-01-01T00:00:00Z"})
	})
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	reports(t, s, newSubject(runner.Status{
		State: runner.Booting, Since: since, CPUs: 2, RAM: 1 << 30, DisplayPasswordSerial: 3, Reset: "now",
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
			"handled":  map[string]any{"reset": "now"},
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

// reasonOf is the reason of the condition Running in a request for a status.
func reasonOf(r seen) any {
	return r.body["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["reason"]
}

// A VM that is being started is told of when it runs, with all that is known of it then; before that if there is a reason.
func TestReportOfStart(t *testing.T) {
	starting := runner.Status{State: runner.Starting, Reason: runner.ReasonStarting}
	cases := map[string]struct {
		reason string
		known  []condition
		start  time.Duration
		do     func(r *Reporter, vm *subject)
		want   string
	}{
		"Runs": {
			reason: "all is told at once", start: patience,
			do: func(_ *Reporter, vm *subject) {
				vm.is(runner.Status{State: runner.Starting, Reason: runner.ReasonStarting, PID: 1})
				vm.is(runner.Status{State: runner.Booting, RAM: 512 << 20})
			},
			want: "VmStarted",
		},
		"Fails": {
			reason: "a failure is told at once", start: patience,
			do:   func(_ *Reporter, vm *subject) { vm.is(runner.Status{State: runner.Failed}) },
			want: "VmFailed",
		},
		"Imports": {
			reason: "to fill disks takes its time", start: patience,
			do: func(_ *Reporter, vm *subject) {
				vm.is(runner.Status{State: runner.Starting, Reason: runner.ReasonImporting})
			},
			want: "Importing",
		},
		"Waits": {
			reason: "who waits says so", start: patience,
			do:   func(r *Reporter, _ *subject) { r.Waits("lease is held") },
			want: "RunnerStarted",
		},
		"TakesLong": {reason: "that is told after a while", start: time.Millisecond, do: func(*Reporter, *subject) {}, want: "RunnerStarted"},
		"RanBefore": {
			reason: "what an earlier runner has left is not true any more", start: patience,
			known: []condition{{Type: conditionRunning, Status: "True"}},
			do:    func(*Reporter, *subject) {}, want: "RunnerStarted",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(seen) (int, any) { return http.StatusOK, found("Running", c.known...) })
			vm := newSubject(starting)
			p := quick
			p.start = c.start
			r, _ := reportsAt(t, s, vm, p)
			s.next(t, http.MethodGet)
			c.do(r, vm)
			if got := reasonOf(s.next(t, http.MethodPatch)); got != c.want {
				t.Errorf("the first report has the reason %s, want %s: %s", got, c.want, c.reason)
			}
		})
	}
}

// What changes in a moment is told together; a new state, and all that is known then, at once.
func TestReportTogether(t *testing.T) {
	t.Parallel()
	s := serve(t, works)
	vm := newSubject(runner.Status{State: runner.Booting})
	p := quick
	p.gather = patience
	reportsAt(t, s, vm, p)
	s.next(t, http.MethodPatch)
	for i := range 10 {
		vm.is(runner.Status{State: runner.Booting, CPUs: i})
		// Long enough for a report that does not wait.
		sleep(t.Context(), 10*time.Millisecond)
	}
	vm.is(runner.Status{State: runner.Booted, CPUs: 10})
	r := s.next(t, http.MethodPatch)
	if cpus := r.body["status"].(map[string]any)["cpus"]; cpus != 10.0 || reasonOf(r) != "VmBooted" {
		t.Errorf("the second report has %v CPUs and the reason %s, want all that there is", cpus, reasonOf(r))
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
