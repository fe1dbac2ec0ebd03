package runner

import (
	"fmt"
	"log/slog"
	"testing"
)

// A listener that does not listen holds up nothing, and finds the newest.
func TestSlowListener(t *testing.T) {
	r := newReport(slog.New(slog.DiscardHandler), nil)
	_, changed := r.status.get()
	for i := range 10 * eventBuffer {
		r.event(false, "Count", fmt.Sprint(i))
		r.setRAM(ramBase, int64(i))
	}
	r.end()
	select {
	case <-changed:
	default:
		t.Error("a change is not told")
	}
	if status, _ := r.status.get(); status.RAM != 10*eventBuffer-1 {
		t.Errorf("RAM is %d", status.RAM)
	}
	next := 9 * eventBuffer
	for e := range r.events {
		if e.Message != fmt.Sprint(next) {
			t.Fatalf("event is %q, want %d", e.Message, next)
		}
		next++
	}
	if next != 10*eventBuffer {
		t.Errorf("last event is %d", next-1)
	}
}
