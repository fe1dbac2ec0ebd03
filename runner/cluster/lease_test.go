package cluster

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// leases is a server that has one Lease, and refuses changes of another version than it has. It can be made to fail, for
// all or for one holder.
type leases struct {
	mu      sync.Mutex
	object  map[string]any
	version int
	fails   func(seen) bool
}

func (l *leases) answer(r seen) (int, any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil && l.fails(r) {
		return 0, nil
	}
	if !strings.Contains(r.path, "/leases") {
		return http.StatusOK, found("Running")
	}
	switch {
	case r.method == http.MethodPost && l.object != nil:
		return failure(http.StatusConflict, "AlreadyExists")
	case r.method == http.MethodPost:
		l.object = r.body
	case l.object == nil:
		return failure(http.StatusNotFound, "NotFound")
	case r.method == http.MethodPatch:
		metadata := r.body["metadata"].(map[string]any)
		if metadata["resourceVersion"] != strconv.Itoa(l.version) {
			return failure(http.StatusConflict, "Conflict")
		}
		for k, v := range r.body["spec"].(map[string]any) {
			l.object["spec"].(map[string]any)[k] = v
		}
	}
	if r.method != http.MethodGet {
		l.version++
		l.object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(l.version)
	}
	return http.StatusOK, runtime.DeepCopyJSON(l.object)
}

func (l *leases) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// holder is who holds the Lease.
func (l *leases) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	holder, _ := l.object["spec"].(map[string]any)["holderIdentity"].(string)
	return holder
}

func newLeases(t *testing.T) (*leases, *transport) {
	t.Helper()
	l := &leases{}
	s := serve(t, nil)
	s.answers(l.answer)
	// Nobody reads them here.
	go func() {
		for range s.arrivals {
		}
	}()
	t.Cleanup(func() { s.Close(); close(s.arrivals) })
	return l, s
}

// leaseOf is a Lease for a pod. Its duration is short, but still in whole seconds for the API.
func leaseOf(s *transport, pod string, strict bool) *Lease {
	o := LeaseOptions{Name: "web-disks", Duration: time.Second, Strict: strict}
	return NewLease(NewClient(s.credentials), testVM, Pod{Name: pod, UID: "u"}, o, quiet())
}

// hold begins to hold a Lease; what is returned tells how that ends.
func hold(t *testing.T, l *Lease) (<-chan error, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Hold(ctx) }()
	return ended, cancel
}

func ends(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("lease is held on")
		return nil
	}
}

// A Lease that is made is the API's own type, and goes with its VM.
func TestLeaseObject(t *testing.T) {
	server, s := newLeases(t)
	if err := leaseOf(s, "web-0", false).Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(server.object)
	if err != nil {
		t.Fatal(err)
	}
	var o coordinationv1.Lease
	if err := yaml.UnmarshalStrict(data, &o); err != nil {
		t.Fatalf("not a Lease: %v\n%s", err, data)
	}
	if len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != "u-1" || o.OwnerReferences[0].Kind != "VirtualMachine" {
		t.Errorf("owner is %v", o.OwnerReferences)
	}
	if *o.Spec.HolderIdentity != "web-0/u" || *o.Spec.LeaseDurationSeconds != 1 || o.Spec.RenewTime.IsZero() || o.Spec.AcquireTime.IsZero() {
		t.Errorf("spec is %v", o.Spec)
	}
}

// Of two runners one gets it. The other gets it when it is given back, and not before.
func TestLeaseIsExclusive(t *testing.T) {
	t.Parallel()
	server, s := newLeases(t)
	first, second := leaseOf(s, "first", false), leaseOf(s, "second", false)
	// Longer than a busy machine may hold up the one that renews.
	first.duration, second.duration = 3*time.Second, 3*time.Second
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, stop := hold(t, first)
	got := make(chan error, 1)
	go func() { got <- second.Acquire(t.Context()) }()
	select {
	case <-got:
		t.Fatalf("second has it, too: holder is %s", server.holder())
	case err := <-ended:
		t.Fatalf("first lost it: %v", err)
	case <-time.After(4 * time.Second):
		// The second one would have taken what is not renewed.
	}
	stop()
	if err := ends(t, ended); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, got); err != nil {
		t.Fatal(err)
	}
	if server.holder() != "second/u" {
		t.Errorf("holder is %s", server.holder())
	}
}

// A Lease is given back also if the end came between its last renewal and the answer. One that is another's by then is left alone.
func TestLeaseIsReleased(t *testing.T) {
	t.Parallel()
	server, s := newLeases(t)
	first, second := leaseOf(s, "first", false), leaseOf(s, "second", false)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	unanswered := *first
	if err := unanswered.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.holder() != "" {
		t.Fatalf("holder is %s", server.holder())
	}
	if err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := unanswered.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.holder() != "second/u" {
		t.Errorf("holder is %s", server.holder())
	}
}

// A restarted container of the same pod does not wait.
func TestLeaseOfSamePod(t *testing.T) {
	t.Parallel()
	_, s := newLeases(t)
	for range 2 {
		lease := leaseOf(s, "web-0", false)
		lease.duration = patience
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := lease.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A Lease whose holder is gone is taken, and a holder that is not gone notices.
func TestLeaseIsTaken(t *testing.T) {
	t.Parallel()
	server, s := newLeases(t)
	first, second := leaseOf(s, "first", false), leaseOf(s, "second", false)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := second.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("taken after %s, want its whole duration", took)
	}
	if server.holder() != "second/u" {
		t.Errorf("holder is %s", server.holder())
	}
	ended, stop := hold(t, first)
	defer stop()
	if err := ends(t, ended); !errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), "second/u") {
		t.Errorf("first ends with %v, want the loss", err)
	}
}

// A Lease that somebody deletes is made again, and one that somebody else changes is still held.
func TestLeaseIsDisturbed(t *testing.T) {
	disturbances := map[string]func(*leases){
		"Deleted": func(l *leases) { l.object = nil },
		"Changed": func(l *leases) {
			l.version++
			l.object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(l.version)
		},
	}
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := newLeases(t)
			lease := leaseOf(s, "web-0", true)
			lease.duration = patience
			if err := lease.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			server.set(func() { disturb(server) })
			if err := lease.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := lease.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if server.holder() != "web-0/u" {
				t.Errorf("holder is %s", server.holder())
			}
		})
	}
}

// An API server that is away ends a strict holder before another one may take the Lease, and no other.
func TestLeaseWithoutServer(t *testing.T) {
	t.Parallel()
	server, s := newLeases(t)
	strict, patient := leaseOf(s, "strict", true), leaseOf(s, "patient", false)
	// A third of it is what a busy machine may hold up the one that ends.
	const duration = 6 * time.Second
	strict.duration, patient.duration = duration, duration
	if err := strict.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	patient.version, patient.renewed = strict.version, strict.renewed
	renewed := strict.renewed
	server.set(func() { server.fails = func(seen) bool { return true } })
	ended, stop := hold(t, strict)
	defer stop()
	still, enough := hold(t, patient)
	if err := ends(t, ended); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("strict holder ends with %v", err)
	}
	if held := time.Since(renewed); held >= duration {
		t.Errorf("strict holder had it for %s after the last renewal, another one could have it", held)
	}
	select {
	case err := <-still:
		t.Errorf("patient holder ends with %v", err)
	case <-time.After(time.Until(renewed.Add(duration + time.Second))):
	}
	enough()
	if err := ends(t, still); err != nil {
		t.Error(err)
	}
}

// While the API server is away nobody can renew a Lease, so that time says nothing about the holder.
func TestLeaseIsNotTakenAfterOutage(t *testing.T) {
	t.Parallel()
	server, s := newLeases(t)
	first, second := leaseOf(s, "first", false), leaseOf(s, "second", false)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, reads := make(chan error, 1), make(chan struct{}, 1000)
	watch := func(fails bool) {
		server.set(func() {
			server.fails = func(seen) bool {
				reads <- struct{}{}
				return fails
			}
		})
	}
	watch(false)
	go func() { got <- second.Acquire(t.Context()) }()
	// It has seen who holds the Lease before the outage begins.
	<-reads
	watch(true)
	over := time.Now().Add(1200 * time.Millisecond)
	for time.Now().Before(over) {
		<-reads
	}
	back := time.Now()
	server.set(func() { server.fails = nil })
	if err := ends(t, got); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(back); took < time.Second {
		t.Errorf("taken %s after the end of the outage, the holder had no time to renew it", took)
	}
}
