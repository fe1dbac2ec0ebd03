package qmp

import (
	"context"
	"sync/atomic"
)

// EventBuffer is the number of events that Events keeps for a listener.
const EventBuffer = 256

// Subscription is one listener's stream of events. It never holds up the monitor: a listener that falls
// behind loses the oldest events, so that the last ones, which tell the end, arrive.
type Subscription struct {
	monitor *Monitor
	events  chan Event
	dropped atomic.Uint64
}

// Subscribe begins a stream that keeps up to buffer events until they are read, at least one.
func (m *Monitor) Subscribe(buffer int) *Subscription {
	s := &Subscription{monitor: m, events: make(chan Event, max(buffer, 1))}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		close(s.events)
		return s
	}
	m.subs[s] = struct{}{}
	return s
}

// Events returns the stream. It is closed by Close and when the monitor ends; what is buffered can still be read.
func (s *Subscription) Events() <-chan Event {
	return s.events
}

// Dropped returns how many events the listener has lost because it was too slow.
func (s *Subscription) Dropped() uint64 {
	return s.dropped.Load()
}

// Close ends the stream.
func (s *Subscription) Close() {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	if _, ok := s.monitor.subs[s]; ok {
		delete(s.monitor.subs, s)
		close(s.events)
	}
}

// Events returns a stream of events that is closed when the context or the monitor ends.
func (m *Monitor) Events(ctx context.Context) (<-chan Event, error) {
	s := m.Subscribe(EventBuffer)
	context.AfterFunc(ctx, s.Close)
	return s.events, nil
}

// publish gives an event to all listeners. It holds the lock, so that no stream is closed meanwhile,
// and is the only sender, so that there is room after one event was taken out.
func (m *Monitor) publish(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.subs {
		select {
		case s.events <- e:
			continue
		default:
		}
		select {
		case <-s.events:
			s.dropped.Add(1)
		default:
		}
		s.events <- e
	}
}
