package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner"
)

// Source is a VM to report about: a runner.VM.
type Source interface {
	// Status returns the newest status, and a channel that is closed when there is a newer one.
	Status() (runner.Status, <-chan struct{})
	// Events returns what happens, until it is closed.
	Events() <-chan runner.Event
}

// Reporter writes the status of a VM to the API server: always the newest, and a new state at once.
type Reporter struct {
	client  *Client
	vm      VM
	source  Source
	want    func() int64
	version string
	// pod is the UID of the runner's pod.
	pod   string
	log   *slog.Logger
	pace  pace
	limit *rate.Limiter
	// waits is what a VM that has not been started waits for, news says that it has changed.
	waits atomic.Pointer[string]
	news  chan struct{}

	// uid is the VirtualMachine's; "" = not known.
	uid        string
	conditions conditions
	// begun is when there was a VM to report about first.
	begun    time.Time
	ram      settled
	progress progress
	// sent is what was sent last, told the state that it was about.
	sent      *status
	told      runner.State
	complaint complaint
}

// NewReporter makes a reporter for a runner in a pod. The version is the runner's; want tells the RAM in bytes that the guest shall have, for a guest
// that is on its way there is not reported at each step.
func NewReporter(c *Client, vm VM, pod Pod, source Source, want func() int64, version string, log *slog.Logger) *Reporter {
	r := newReporter(c, vm, source, want, version, log, defaultPace)
	r.pod = pod.UID
	return r
}

func newReporter(c *Client, vm VM, source Source, want func() int64, version string, log *slog.Logger, p pace) *Reporter {
	return &Reporter{
		client: c, vm: vm, source: source, want: want, version: version, log: log, pace: p, news: make(chan struct{}, 1),
		// A VM that is paused and goes on by turns is no reason to keep an API server busy.
		limit:     rate.NewLimiter(rate.Every(2*time.Second), 10),
		begun:     time.Now(),
		ram:       settled{calm: p.settle},
		progress:  progress{every: p.progress},
		complaint: complaint{log: log, what: "report the status"},
	}
}

// Waits says what the VM waits for before it is started, to be reported.
func (r *Reporter) Waits(message string) {
	r.waits.Store(&message)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Run reports until the context ends, and then once more if there is something new.
func (r *Reporter) Run(ctx context.Context) {
	wait := backoff{least: r.pace.least, most: r.pace.most}
	for ctx.Err() == nil {
		s, changed := r.source.Status()
		again, err := r.report(ctx, s)
		if ctx.Err() != nil {
			break
		}
		r.complaint.tell(err)
		if err != nil {
			// What is new meanwhile goes with the next attempt.
			sleep(ctx, wait.next(err))
			continue
		}
		wait.reset()
		r.rest(ctx, changed, again)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.pace.last)
	defer cancel()
	retry(last, r.pace, r.log, "report the last status", func(ctx context.Context) error {
		s, _ := r.source.Status()
		_, err := r.report(ctx, s)
		return err
	})
}

// rest waits until there is something to report: a newer status, or a value that was held back.
func (r *Reporter) rest(ctx context.Context, changed <-chan struct{}, again time.Duration) {
	var due <-chan time.Time
	if again > 0 {
		t := time.NewTimer(again)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return
	case <-changed:
		r.gather(ctx)
	case <-r.news:
	case <-due:
	}
	if r.sent != nil {
		_ = r.limit.Wait(ctx)
	}
}

// gather waits a moment for what else changes, so that it is told together. Another state is told at once.
func (r *Reporter) gather(ctx context.Context) {
	over := time.NewTimer(r.pace.gather)
	defer over.Stop()
	for {
		s, changed := r.source.Status()
		if s.State != r.told {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case <-changed:
		}
	}
}

// held is how long nothing has to be told yet: a VM that is being started runs a moment later, most of the time, and then all is told at
// once. It is told if the VM waits for something, and if it is said to run: that was an earlier runner.
func (r *Reporter) held(s runner.Status, now time.Time) time.Duration {
	starts := s.State == "" || s.State == runner.Starting && s.Reason == runner.ReasonStarting
	if !starts || r.sent != nil || r.waits.Load() != nil || r.conditions.last[conditionRunning].Status == "True" {
		return 0
	}
	return r.begun.Add(r.pace.start).Sub(now)
}

// report sends a status unless it is what was sent last. It returns after which time a part of it that is held back is to
// be sent; 0 if there is none.
func (r *Reporter) report(ctx context.Context, s runner.Status) (time.Duration, error) {
	if err := r.recall(ctx); err != nil {
		return 0, err
	}
	now := time.Now()
	if left := r.held(s, now); left > 0 {
		return left, nil
	}
	ram, again := r.ram.next(now, s.RAM, r.want())
	s.RAM = ram
	if waits := r.waits.Load(); waits != nil && s.State == "" {
		s.Message = *waits
	}
	next := newStatus(s, r.version)
	for i := range next.Contents {
		next.Contents[i].Pod = r.pod
	}
	next.Conditions = r.conditions.of(s, now)
	imports, due := r.progress.next(now, next.Imports)
	if next.Imports = imports; due > 0 && (again == 0 || due < again) {
		again = due
	}
	if r.sent != nil && reflect.DeepEqual(*r.sent, next) {
		return again, nil
	}
	if err := r.apply(ctx, next); err != nil {
		// Whether it arrived is not known.
		r.sent = nil
		return 0, err
	}
	r.sent, r.told = &next, s.State
	return again, nil
}

// apply sends a status, and once more if somebody else has written to the VirtualMachine just then.
func (r *Reporter) apply(ctx context.Context, next status) error {
	err := r.applyToSeen(ctx, next)
	if hasCode(err, http.StatusConflict) {
		err = r.applyToSeen(ctx, next)
	}
	return err
}

// errReplaced says that the VirtualMachine was deleted, and another of its name made.
var errReplaced = errors.New("the VirtualMachine is another one of the same name")

// applyToSeen looks at the VirtualMachine and sends a status for what it is now. That others have written to it since a status was sent last is
// the rule, and to look costs less than a write that is refused.
func (r *Reporter) applyToSeen(ctx context.Context, next status) error {
	m, err := r.client.virtualMachine(ctx, r.vm)
	if err != nil {
		return err
	}
	if m.Metadata.UID != r.uid {
		return fmt.Errorf("report the status: %w", errReplaced)
	}
	return r.client.applyStatus(ctx, r.vm, m.Metadata.ResourceVersion, next)
}

// recall finds out, once, which VirtualMachine this is, and since when its conditions hold.
func (r *Reporter) recall(ctx context.Context) error {
	if r.uid != "" {
		return nil
	}
	m, err := r.client.virtualMachine(ctx, r.vm)
	if err != nil {
		return err
	}
	r.uid = m.Metadata.UID
	r.conditions.remember(m.Status.Conditions)
	return nil
}
