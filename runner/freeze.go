package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

var (
	// ErrNoAgent says that no agent answers in the guest.
	ErrNoAgent = errors.New("no agent answers in the guest")
	// ErrFrozen says that the guest's file systems are frozen already.
	ErrFrozen = errors.New("the guest's file systems are frozen")
)

// Freeze makes the guest write back and freeze its file systems, for a consistent copy of its disks, and returns how many they
// are. They stay frozen until Thaw, but at most for the limit, which counts from the call; after that they are thawed by force, again and
// again until the guest's agent does it. A guest that could not be frozen is thawed, too. It needs no QMP.
func (m *VM) Freeze(ctx context.Context, limit time.Duration) (int, error) {
	g := m.vm.guestAgent.Load()
	if g == nil {
		return 0, ErrNotRunning
	}
	return g.freeze(ctx, limit)
}

// Thaw ends a Freeze, and returns how many file systems were frozen. It does no harm where none is.
func (m *VM) Thaw(ctx context.Context) (int, error) {
	g := m.vm.guestAgent.Load()
	if g == nil {
		return 0, ErrNotRunning
	}
	return g.thaw(ctx)
}

func (g *guestAgent) freeze(ctx context.Context, limit time.Duration) (int, error) {
	if status, _ := g.report.status.get(); status.Agent != AgentAnswers {
		return 0, ErrNoAgent
	}
	until := time.Now().Add(limit)
	if !g.claim(until) {
		return 0, ErrFrozen
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	n, err := g.client.Freeze(ctx)
	if err != nil {
		// The guest may be frozen all the same, or its thaw may have failed: once more cannot do harm.
		g.setFrozen(time.Now())
		return 0, fmt.Errorf("freeze: %w", err)
	}
	return n, nil
}

func (g *guestAgent) thaw(ctx context.Context) (int, error) {
	n, err := g.client.Thaw(ctx)
	if err != nil {
		if g.frozen() {
			g.setFrozen(time.Now())
		}
		return 0, fmt.Errorf("thaw: %w", err)
	}
	g.setFrozen(time.Time{})
	return n, nil
}

// forceThaw ends a freeze whose time is over.
func (g *guestAgent) forceThaw(ctx context.Context) {
	n, err := g.client.Thaw(ctx)
	var refused *guestagent.Error
	switch {
	case err == nil || errors.As(err, &refused):
		// An agent that refuses will refuse again.
		g.setFrozen(time.Time{})
		g.delay = 0
		if n > 0 {
			g.report.event(true, "GuestThawed", fmt.Sprintf("%d frozen file systems of the guest were thawed by force: nobody has thawed them in time", n))
		}
	case ctx.Err() == nil:
		g.delay = g.pace.after(g.delay)
		g.setFrozen(time.Now().Add(g.delay))
	}
	if err != nil {
		g.log.Warn("cannot thaw the guest", "error", err)
	}
}

// claim begins a freeze, unless there is one.
func (g *guestAgent) claim(until time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.frozenUntil.IsZero() {
		return false
	}
	g.frozenUntil = until
	g.wake()
	return true
}

func (g *guestAgent) frozen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.frozenUntil.IsZero()
}

// setFrozen sets when the guest is thawed by force; zero says that it is not frozen.
func (g *guestAgent) setFrozen(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozenUntil = until
	g.wake()
}

func (g *guestAgent) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}
