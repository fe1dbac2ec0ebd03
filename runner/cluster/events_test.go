package cluster

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/runner"
)

var testPod = Pod{Namespace: "vms", Name: "web-0", UID: "p-1"}

func writesEvents(t *testing.T, s *transport, vm *subject) func() {
	t.Helper()
	w := newEventWriter(NewClient(s.credentials), testVM, testPod, vm, quiet(), quick)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// An event is what kubectl describe shows of a VM, in the API's own type, within its limits.
func TestEventRequest(t *testing.T) {
	s := serve(t, works)
	vm := newSubject(runner.Status{})
	writesEvents(t, s, vm)
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	vm.events <- runner.Event{Time: time.Now(), Warning: true, Reason: "VmPaused", Message: strings.Repeat("ä", 1000)}
	r := s.next(t, http.MethodPost)
	if r.path != "/apis/events.k8s.io/v1/namespaces/vms/events" {
		t.Errorf("post to %s", r.path)
	}
	data, err := yaml.Marshal(r.body)
	if err != nil {
		t.Fatal(err)
	}
	var e eventsv1.Event
	if err := yaml.UnmarshalStrict(data, &e); err != nil {
		t.Fatalf("not an Event: %v\n%s", err, data)
	}
	if e.Regarding.Kind != "VirtualMachine" || e.Regarding.Name != "web" || e.Regarding.Namespace != "vms" || e.Regarding.UID != "u-1" {
		t.Errorf("event regards %v", e.Regarding)
	}
	if e.ReportingController != ReportingController || e.ReportingInstance != "web-0" || e.Action == "" {
		t.Errorf("event is from %s %s, action %q", e.ReportingController, e.ReportingInstance, e.Action)
	}
	if e.Type != "Warning" || e.Reason != "VmPaused" {
		t.Errorf("event is a %s, %s", e.Type, e.Reason)
	}
	if len(e.Note) > 1024 || !strings.HasSuffix(e.Note, "ä") {
		t.Errorf("note has %d bytes, and ends with %q", len(e.Note), e.Note[len(e.Note)-2:])
	}
	if e.EventTime.Year() != time.Now().UTC().Year() {
		t.Errorf("event's time is %s", e.EventTime)
	}
	if got := apiMicroTime(now); got != "2026-01-02T03:04:05.678901Z" {
		t.Errorf("time is written as %s", got)
	}
}

// Events arrive in order and once, whatever the API server does meanwhile; those that it does not want are left out.
func TestEventsInOrder(t *testing.T) {
	calls := 0
	s := serve(t, func(r seen) (int, any) {
		if r.method != http.MethodPost {
			return works(r)
		}
		calls++
		switch calls {
		case 1:
			return away(r)
		case 2:
			return failure(http.StatusServiceUnavailable, "ServiceUnavailable")
		case 4:
			return failure(http.StatusConflict, "AlreadyExists")
		case 5:
			return failure(http.StatusUnprocessableEntity, "Invalid")
		default:
			return works(r)
		}
	})
	vm := newSubject(runner.Status{})
	writesEvents(t, s, vm)
	for _, reason := range []string{"One", "Two", "Three", "Four"} {
		vm.events <- runner.Event{Time: time.Now(), Reason: reason}
	}
	var got []string
	for range 6 {
		got = append(got, s.next(t, http.MethodPost).body["reason"].(string))
	}
	if want := "One One One Two Three Four"; strings.Join(got, " ") != want {
		t.Errorf("requests are %v, want %s", got, want)
	}
}

// The events of a run that is over are written before the process ends.
func TestEventsAtTheEnd(t *testing.T) {
	s := serve(t, works)
	vm := newSubject(runner.Status{})
	for range 10 {
		vm.events <- runner.Event{Time: time.Now(), Reason: "VMStopped"}
	}
	stop := writesEvents(t, s, vm)
	stop()
	posts := 0
	for len(s.arrivals) > 0 {
		if r := <-s.arrivals; r.method == http.MethodPost {
			posts++
		}
	}
	if posts != 10 {
		t.Errorf("%d of 10 events were written", posts)
	}
}
