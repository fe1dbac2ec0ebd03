package cluster

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func follows(t *testing.T, s *transport, stops bool) func() {
	t.Helper()
	g := GuestShutdown{Client: NewClient(s.credentials), VM: testVM, Pod: testPod, Stops: stops, Log: quiet(), pace: quick}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Follow(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return func() {
		t.Helper()
		select {
		case <-done:
			t.Error("did not wait for the end of the pod")
		default:
		}
		cancel()
		<-done
	}
}

// A VM that stops is marked so, and only what was seen is changed.
func TestGuestShutdownStops(t *testing.T) {
	attempts := 0
	s := serve(t, func(r seen) (int, any) {
		if r.method != http.MethodPatch {
			return works(r)
		}
		attempts++
		if attempts == 1 {
			return failure(http.StatusConflict, "Conflict")
		}
		return works(r)
	})
	end := follows(t, s, true)
	s.next(t, http.MethodPatch)
	r := s.next(t, http.MethodPatch)
	if r.path != testVM.path() || r.query != "fieldManager=cuvee.runner" || r.contentType != "application/merge-patch+json" {
		t.Errorf("%s %s?%s", r.contentType, r.path, r.query)
	}
	want := map[string]any{
		"metadata": map[string]any{"uid": "u-1", "resourceVersion": "7"},
		"spec":     map[string]any{"vm": map[string]any{"state": "Stopped"}},
	}
	if diff := cmp.Diff(want, r.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	s.answers(func(seen) (int, any) { return http.StatusOK, found("Stopped") })
	end()
}

// A VM that is stopped already is not written to, and its pod is left to the manager.
func TestGuestShutdownWaits(t *testing.T) {
	s := serve(t, func(seen) (int, any) { return http.StatusOK, found("Stopped") })
	end := follows(t, s, true)
	for range 5 {
		if r := s.next(t, http.MethodGet); r.path != testVM.path() {
			t.Errorf("get of %s", r.path)
		}
	}
	for len(s.arrivals) > 0 {
		if r := <-s.arrivals; r.method != http.MethodGet {
			t.Errorf("%s of %s", r.method, r.path)
		}
	}
	// Somebody wants it to run before the manager has removed the pod.
	s.answers(works)
	r := s.next(t, http.MethodDelete)
	if r.path != "/api/v1/namespaces/vms/pods/web-0" {
		t.Errorf("delete of %s", r.path)
	}
	end()
}

// A VM that runs on has its pod deleted: this one, and no other of the name.
func TestGuestShutdownRestarts(t *testing.T) {
	attempts := 0
	s := serve(t, func(r seen) (int, any) {
		attempts++
		if attempts < 3 {
			return away(r)
		}
		return works(r)
	})
	end := follows(t, s, false)
	var r seen
	for range 3 {
		r = s.next(t, http.MethodDelete)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": "p-1"}}
	if diff := cmp.Diff(want, r.body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	end()
}

// A guest that shuts down at once does not make pods as fast as it can.
func TestGuestShutdownIsNoBusyLoop(t *testing.T) {
	s := serve(t, works)
	g := GuestShutdown{
		Client: NewClient(s.credentials), VM: testVM, Pod: testPod, Log: quiet(),
		pace: quick, leastRun: time.Hour, Ran: time.Second,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	g.Follow(ctx)
	if len(s.arrivals) > 0 {
		t.Error("the pod was deleted at once")
	}
	g.Ran = 2 * time.Hour
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Follow(ctx) }()
	s.next(t, http.MethodDelete)
	stop()
	<-done
}
