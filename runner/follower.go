package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// setting is one field of a config's live part, and how a VM is brought to it. A setting is used by one goroutine
// at a time, and remembers what it did; others may be applied at the same time.
type setting interface {
	// apply makes the VM comply, as far as it does not. What has to be waited for is a waiting error: apply does not wait.
	apply(ctx context.Context, live *Live) error
	// wakes says whether an event is a reason to apply again.
	wakes(e qmp.Event) bool
}

// poller is a setting that depends on something that nobody tells.
type poller interface {
	// polls is how long after it was applied a setting has to be applied again.
	polls(live *Live) time.Duration
}

// late is a setting that does not matter to a guest that has not begun to run: a start does not wait for it.
type late interface {
	late()
}

// waiting is what a setting waits for the guest to do.
type waiting string

func (w waiting) Error() string { return string(w) }

// field is a setting with its path below live and what became of it.
type field struct {
	path    path
	setting setting
	// taken says that a config with the field was taken before.
	taken bool
	// due is when it is applied next, zero if there is no need to.
	due     time.Time
	delay   time.Duration
	problem *PendingChange
}

// follower keeps a VM at what the newest config's live part says.
type follower struct {
	report *report
	pace   pace
	// make returns the setting for a path.
	make   func(path) setting
	fields []*field
	live   *Live
}

// follow applies configs as they come, what is due again, and what events call for, until the context ends.
func (f *follower) follow(ctx context.Context, newest *latest[*Config], events <-chan qmp.Event) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	cfg, changed := newest.get()
	f.take(ctx, &cfg.Live)
	for {
		timer.Reset(f.nextDue())
		select {
		case <-ctx.Done():
			return
		case <-changed:
			cfg, changed = newest.get()
			f.take(ctx, &cfg.Live)
		case e, ok := <-events:
			if !ok {
				return
			}
			f.applyWhere(ctx, func(d *field) bool { return d.setting.wakes(e) })
		case now := <-timer.C:
			f.applyWhere(ctx, func(d *field) bool { return !d.due.IsZero() && !d.due.After(now) })
		}
	}
}

// take makes a live part the one to follow.
func (f *follower) take(ctx context.Context, live *Live) {
	if live == f.live {
		return
	}
	isFirst := f.live == nil
	f.live = live
	for _, p := range live.paths() {
		if !slices.ContainsFunc(f.fields, func(d *field) bool { return d.path == p }) {
			f.fields = append(f.fields, &field{path: p, setting: f.make(p)})
		}
	}
	for _, d := range f.fields {
		d.delay = 0
	}
	if isFirst {
		f.applyTogether(ctx)
	} else {
		f.applyWhere(ctx, func(d *field) bool { return !f.putOff(d) })
	}
	if ctx.Err() == nil {
		// What the status says is about this config from now on: each field was tried once.
		f.report.observed(live.Generation)
	}
}

// putOff makes a late field due at once when it is first taken, which is before the guest runs.
func (f *follower) putOff(d *field) bool {
	if _, ok := d.setting.(late); !ok || d.taken {
		return false
	}
	d.taken, d.due = true, time.Now()
	return true
}

// applyWhere applies the fields of which a condition holds.
func (f *follower) applyWhere(ctx context.Context, condition func(*field) bool) {
	for _, d := range f.fields {
		if ctx.Err() != nil {
			return
		}
		if condition(d) {
			f.apply(ctx, d)
		}
	}
}

// applyTogether applies all fields that a start waits for, each as if it were alone: QEMU has its next command before the
// reply to the last one is read.
func (f *follower) applyTogether(ctx context.Context) {
	var now []*field
	for _, d := range f.fields {
		if !f.putOff(d) {
			now = append(now, d)
		}
	}
	errs := make([]error, len(now))
	var all sync.WaitGroup
	for i, d := range now {
		all.Go(func() { errs[i] = d.setting.apply(ctx, f.live) })
	}
	all.Wait()
	for i, d := range now {
		f.applied(ctx, d, errs[i])
	}
}

func (f *follower) apply(ctx context.Context, d *field) {
	f.applied(ctx, d, d.setting.apply(ctx, f.live))
}

// applied takes up what became of a field: what is told of it, and when it is applied again.
func (f *follower) applied(ctx context.Context, d *field, err error) {
	if ctx.Err() != nil {
		return
	}
	d.due = time.Time{}
	if p, ok := d.setting.(poller); ok {
		if every := p.polls(f.live); every > 0 {
			d.due = time.Now().Add(every)
		}
	}
	if err == nil {
		d.delay = 0
	} else if !final(err) {
		d.delay = f.pace.after(d.delay)
		d.due = time.Now().Add(d.delay)
	}
	f.tell(d, err)
}

// final says that only another config can help.
func final(err error) bool {
	var refused *qmp.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Class {
	case qmp.ClassCommandNotFound, qmp.ClassDeviceNotFound, qmp.ClassDeviceNotActive:
		return true
	}
	return false
}

// tell reports what became of a field, if that is something else than before.
func (f *follower) tell(d *field, err error) {
	if err == nil {
		if d.problem != nil {
			d.problem = nil
			f.tellAll()
			f.report.event(false, "LiveChangeDone", d.path.String()+": done")
		}
		return
	}
	var w waiting
	problem := PendingChange{Field: d.path.String(), Waiting: errors.As(err, &w), Message: err.Error()}
	if d.problem != nil && *d.problem == problem {
		return
	}
	d.problem = &problem
	f.tellAll()
	if problem.Waiting {
		f.report.event(false, "LiveChangeWaits", d.path.String()+": "+problem.Message)
		return
	}
	f.report.event(true, "LiveChangeRefused", d.path.String()+": "+problem.Message)
}

func (f *follower) tellAll() {
	var pending []PendingChange
	for _, d := range f.fields {
		if d.problem != nil {
			pending = append(pending, *d.problem)
		}
	}
	slices.SortFunc(pending, func(a, b PendingChange) int { return cmp.Compare(a.Field, b.Field) })
	f.report.update(func(s *Status) { s.Pending = pending })
}

// nextDue returns how long it is until something is due.
func (f *follower) nextDue() time.Duration {
	next := time.Hour
	for _, d := range f.fields {
		if !d.due.IsZero() {
			next = min(next, time.Until(d.due))
		}
	}
	return max(next, 0)
}
