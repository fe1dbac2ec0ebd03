package qmp_test

import (
	"context"
	"fmt"
	"testing"
)

func event(n int) string {
	return fmt.Sprintf(`{"event": "E%d", "data": {"n": %d}, "timestamp": {"seconds": 1, "microseconds": 2}}`, n, n)
}

// Events between a command and its reply reach all listeners, in order, and the reply its caller.
func TestEventsBetween(t *testing.T) {
	m, s := connected(t)
	first, second := m.Subscribe(10), m.Subscribe(10)
	go func() {
		c := s.receive()
		for n := range 3 {
			s.send(event(n))
		}
		s.reply(c, `{}`)
	}()
	if err := m.Execute(t.Context(), "query-status", nil, nil); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		for _, sub := range []interface{ Dropped() uint64 }{first, second} {
			if sub.Dropped() != 0 {
				t.Errorf("%d events lost", sub.Dropped())
			}
		}
		want := fmt.Sprintf("E%d", n)
		if e := <-first.Events(); e.Event != want || e.Data["n"] != float64(n) || e.Timestamp.Microseconds != 2 {
			t.Errorf("first listener got %+v, want %s", e, want)
		}
		if e := <-second.Events(); e.Event != want {
			t.Errorf("second listener got %+v, want %s", e, want)
		}
	}
}

// A listener that does not read loses the oldest events, and holds up neither replies nor other listeners.
func TestSlowListener(t *testing.T) {
	m, s := connected(t)
	slow, quick := m.Subscribe(2), m.Subscribe(1000)
	go func() {
		c := s.receive()
		for n := range 100 {
			s.send(event(n))
		}
		s.reply(c, `{}`)
	}()
	if err := m.Execute(t.Context(), "query-status", nil, nil); err != nil {
		t.Fatal(err)
	}
	if slow.Dropped() != 98 || quick.Dropped() != 0 {
		t.Errorf("lost events: slow %d, quick %d, want 98 and 0", slow.Dropped(), quick.Dropped())
	}
	for _, want := range []string{"E98", "E99"} {
		if e := <-slow.Events(); e.Event != want {
			t.Errorf("slow listener got %s, want %s", e.Event, want)
		}
	}
	if n := len(quick.Events()); n != 100 {
		t.Errorf("quick listener has %d events, want 100", n)
	}
}

func TestEventsEnd(t *testing.T) {
	m, _ := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := m.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, open := <-events; open {
		t.Error("got an event, want the end")
	}
}
