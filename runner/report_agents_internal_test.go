package runner

import (
	"log/slog"
	"testing"
)

// An answer from before a reset is that of a guest that is gone.
func TestAnsweredBeforeReset(t *testing.T) {
	r := newReport(slog.New(slog.DiscardHandler), nil)
	r.begin()
	if err := r.started(BootedConfig{}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	r.update(func(s *Status) { s.Reboots++ })
	for resets, want := range map[int]State{0: Booting, 1: Booted} {
		r.happened(guestReset, ReasonReset, "")
		r.answered(resets)
		if status, _ := r.status.get(); status.State != want {
			t.Errorf("the answer of a guest after %d resets: VM is %s, want %s", resets, status.State, want)
		}
	}
}

// What a guest told ends with it.
func TestAgentsEnd(t *testing.T) {
	r := newReport(slog.New(slog.DiscardHandler), nil)
	r.setGuest(AgentAnswers, &Guest{Hostname: "web"})
	r.update(func(s *Status) {
		s.ConsoleClient = "192.0.2.1"
		s.Login.Connected, s.Login.Wanted, s.Login.User = true, "ann", "ann"
	})
	r.begin()
	r.happened(ended, string(EndGuest), "")
	s, _ := r.status.get()
	if s.Agent != AgentAbsent || s.Guest != nil || s.ConsoleClient != "" || s.Login.Connected || s.Login.User != "" || s.Login.Wanted != "ann" {
		t.Errorf("status after the end: %+v", s)
	}
}
