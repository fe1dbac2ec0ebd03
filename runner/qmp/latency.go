package qmp

import (
	"sync"
	"time"
)

// LatencyBounds are the upper bounds of the buckets of a Latency.
var LatencyBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
}

// Latency tells how long commands took from being written to their reply. Those without a reply are not in it.
type Latency struct {
	// Count is the number of replies, Sum the time that they took together.
	Count uint64
	Sum   time.Duration
	// Buckets[i] is the number of replies that took at most LatencyBounds[i].
	Buckets [len(LatencyBounds)]uint64
	// Unanswered is the number of commands that were given up.
	Unanswered uint64
}

// latency is a Latency that is being measured.
type latency struct {
	mu    sync.Mutex
	value Latency
}

func (l *latency) answered(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value.Count++
	l.value.Sum += took
	for i, bound := range LatencyBounds {
		if took <= bound {
			l.value.Buckets[i]++
		}
	}
}

func (l *latency) unanswered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value.Unanswered++
}

// Latency returns how long commands took so far.
func (m *Monitor) Latency() Latency {
	m.latency.mu.Lock()
	defer m.latency.mu.Unlock()
	return m.latency.value
}
