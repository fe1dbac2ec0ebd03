package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// AgentState is how QEMU's guest agent is.
type AgentState string

// The states of a guest agent.
const (
	// AgentAbsent: no agent has its port open.
	AgentAbsent AgentState = ""
	// AgentSilent: there is an agent that does not answer.
	AgentSilent AgentState = "Silent"
	// AgentAnswers: there is an agent, and it answers.
	AgentAnswers AgentState = "Answers"
)

// Guest is what a guest's agent tells. It is the guest's word for it: texts are short and have no control characters, but
// need not be true.
type Guest struct {
	// AgentVersion is the agent's version.
	AgentVersion string
	// Hostname is the guest's name for itself.
	Hostname string
	// OS is the operating system.
	OS guestagent.OS
	// Interfaces are the network interfaces, without the loopback.
	Interfaces []guestagent.Interface
}

// guestAgent keeps in touch with QEMU's guest agent.
type guestAgent struct {
	client *guestagent.Client
	port   agentPort
	report *report
	log    *slog.Logger
	pace   pace
	// news limits the events about an agent that comes and goes.
	news *rate.Limiter

	// open says that the guest has the port open.
	open bool
	// looked and next are the times of the last and of the next look, delay the pause between looks of the same kind.
	looked, next time.Time
	delay        time.Duration
	// misses is how often the agent has not answered since it last did.
	misses int

	// woken tells follow that frozenUntil has changed.
	woken chan struct{}
	mu    sync.Mutex
	// frozenUntil is when the guest's file systems are thawed at the latest; zero if they are not frozen.
	frozenUntil time.Time
}

func newGuestAgent(conn net.Conn, port agentPort, r *report, log *slog.Logger, p pace) *guestAgent {
	return &guestAgent{
		client: guestagent.New(conn), port: port, report: r, log: log, pace: p,
		news: newsLimiter(), woken: make(chan struct{}, 1),
	}
}

// newsLimiter limits what a guest can cause to be told.
func newsLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(10*time.Second), 6) }

// follow looks after the agent until the context ends.
func (g *guestAgent) follow(ctx context.Context, events <-chan qmp.Event) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, thaw := g.due()
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-g.woken:
		case e, ok := <-events:
			if !ok {
				return
			}
			g.take(e)
		case <-timer.C:
			g.act(ctx, due, thaw)
		}
	}
}

// due returns when there is something to do, and whether that is to thaw the guest.
func (g *guestAgent) due() (time.Time, bool) {
	if !g.open {
		return time.Now().Add(time.Hour), false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.frozenUntil.IsZero() {
		return g.frozenUntil, true
	}
	return g.next, false
}

func (g *guestAgent) act(ctx context.Context, due time.Time, thaw bool) {
	switch {
	case time.Now().Before(due), !g.open:
	case thaw:
		g.forceThaw(ctx)
	default:
		g.look(ctx)
	}
}

func (g *guestAgent) take(e qmp.Event) {
	if e.Event == "RESET" {
		g.setFrozen(time.Time{})
		return
	}
	open, ours := g.port.change(e)
	if !ours {
		return
	}
	g.open = open
	if !open {
		g.become(AgentAbsent, nil)
		return
	}
	g.delay, g.misses = 0, 0
	g.next = g.looked.Add(g.pace.agentLeast)
}

// look asks the agent what there is to know.
func (g *guestAgent) look(ctx context.Context) {
	before, _ := g.report.status.get()
	if before.State == Terminating {
		// It has been asked for what counts now.
		g.next = time.Now().Add(g.pace.agentMost)
		return
	}
	guest, err := g.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	g.looked = time.Now()
	if err != nil {
		g.missed(err)
		return
	}
	if g.misses > 0 {
		g.misses, g.delay = 0, 0
	}
	g.delay = min(max(2*g.delay, g.pace.agent), g.pace.agentMost)
	g.next = g.looked.Add(g.delay)
	g.become(AgentAnswers, guest)
	g.report.answered(before.Resets + before.Reboots)
}

// missed follows an agent that does not answer. One that did is given a second chance: its guest may be busy.
func (g *guestAgent) missed(err error) {
	g.misses++
	if g.misses == 1 {
		g.delay = 0
	}
	g.delay = g.pace.after(g.delay)
	g.next = g.looked.Add(g.delay)
	g.log.Debug("no answer from the guest's agent", "error", err)
	if status, _ := g.report.status.get(); status.Agent != AgentAnswers || g.misses > 1 {
		g.become(AgentSilent, nil)
	}
}

// ask gets what the agent tells. What it refuses to tell is left out.
func (g *guestAgent) ask(ctx context.Context) (*Guest, error) {
	if err := g.client.Ping(ctx); err != nil {
		return nil, err
	}
	var guest Guest
	var errs [4]error
	guest.AgentVersion, errs[0] = g.client.Version(ctx)
	guest.Hostname, errs[1] = g.client.Hostname(ctx)
	guest.OS, errs[2] = g.client.OS(ctx)
	guest.Interfaces, errs[3] = g.client.Interfaces(ctx)
	for _, err := range errs {
		var refused *guestagent.Error
		switch {
		case err == nil:
		case errors.As(err, &refused), errors.Is(err, guestagent.ErrGarbled):
			g.log.Debug("the guest's agent does not tell", "error", err)
		default:
			return nil, err
		}
	}
	return &guest, nil
}

// become reports how the agent is.
func (g *guestAgent) become(state AgentState, guest *Guest) {
	before, _ := g.report.status.get()
	g.report.setGuest(state, guest)
	if (before.Agent == AgentAnswers) == (state == AgentAnswers) || !g.news.Allow() {
		return
	}
	if state == AgentAnswers {
		g.report.event(false, "GuestAgentConnected", "the guest's agent answers, version "+cmp.Or(guest.AgentVersion, "unknown"))
		return
	}
	g.report.event(false, "GuestAgentDisconnected", "the guest's agent does not answer any more")
}

// shutDownTimeout is how long the guest's agent may take to take the wish to shut down.
const shutDownTimeout = 4 * time.Second

// shutDown asks the guest, through its agent, to shut down, and tells whether the agent has taken that.
func (g *guestAgent) shutDown(ctx context.Context, left time.Duration) bool {
	if status, _ := g.report.status.get(); status.Agent != AgentAnswers || left <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, shutDownTimeout))
	defer cancel()
	if g.frozen() {
		// Who cannot write cannot shut down.
		if _, err := g.thaw(ctx); err != nil {
			g.log.Warn("cannot thaw the guest", "error", err)
		}
	}
	if err := g.client.Shutdown(ctx); err != nil {
		g.log.Warn("the guest's agent does not shut the guest down", "error", err)
		return false
	}
	return true
}
