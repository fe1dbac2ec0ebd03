package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// backoff is the time between attempts: it grows from one failure to the next.
type backoff struct {
	// least and most are the shortest and the longest wait, before a random part of up to a half is added. It keeps
	// the runners of a cluster from asking all at once when its API server comes back.
	least, most time.Duration
	failures    int
}

// next is how long to wait after one more failure.
func (b *backoff) next(err error) time.Duration {
	wait := b.most
	if b.failures < 16 {
		wait = min(b.most, b.least<<b.failures)
	}
	b.failures++
	if e, ok := errors.AsType[*APIError](err); ok {
		wait = max(wait, min(e.RetryAfter, b.most))
	}
	return wait + rand.N(wait/2+1)
}

func (b *backoff) reset() { b.failures = 0 }

// pace says how fast things are done. Tests have their own.
type pace struct {
	// least and most are those of backoff.
	least, most time.Duration
	// start is how long a VM may take to be started before that is reported.
	start time.Duration
	// gather is how long to wait for what else changes along with something.
	gather time.Duration
	// settle is how long a value that keeps changing is not reported again.
	settle time.Duration
	// progress is how often the progress of an import is reported.
	progress time.Duration
	// last is how long the last report may take when everything ends.
	last time.Duration
	// look is how often to look whether a VM that has stopped shall run again.
	look time.Duration
}

var defaultPace = pace{
	least: time.Second, most: time.Minute, start: 10 * time.Second, gather: 200 * time.Millisecond,
	settle: 15 * time.Second, progress: 5 * time.Second, last: 3 * time.Second, look: 30 * time.Second,
}

// retry does something until it succeeds or the context ends. It tells whether it succeeded. Failures are logged once, and
// again when they become others.
func retry(ctx context.Context, p pace, log *slog.Logger, what string, f func(context.Context) error) bool {
	b := backoff{least: p.least, most: p.most}
	complaint := complaint{log: log, what: what}
	for {
		err := f(ctx)
		if ctx.Err() != nil {
			return err == nil
		}
		complaint.tell(err)
		if err == nil {
			return true
		}
		if !sleep(ctx, b.next(err)) {
			return false
		}
	}
}

// complaint logs what fails once, and not with each attempt.
type complaint struct {
	log  *slog.Logger
	what string
	last string
}

// tell logs an error that is not the last one, and the end of errors.
func (c *complaint) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.last:
	case err != nil:
		c.log.Warn("cannot "+c.what+", trying again", "error", err)
	default:
		c.log.Info("could " + c.what + " again")
	}
	c.last = text
}

// sleep waits, and tells whether the context has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
