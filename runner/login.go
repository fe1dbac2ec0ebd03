package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner/qmp"
	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// login keeps the guest's desktop at the user that the config says, through VM-Operator's agent in the guest.
type login struct {
	conn    *vmopagent.Conn
	port    agentPort
	monitor *qmp.Monitor
	report  *report
	log     *slog.Logger
	// news limits the events about an agent that comes and goes.
	news *rate.Limiter
	// wanted is the user to log in.
	wanted  *latest[string]
	session vmopagent.Session
}

func newLogin(conn net.Conn, port agentPort, monitor *qmp.Monitor, r *report, log *slog.Logger) *login {
	return &login{
		conn: vmopagent.NewConn(conn), port: port, monitor: monitor, report: r, log: log,
		news: newsLimiter(), wanted: newLatest(""),
	}
}

// follow speaks with the agent until the context ends.
func (l *login) follow(ctx context.Context, events <-chan qmp.Event) {
	replies := make(chan vmopagent.Reply)
	read := make(chan struct{})
	go func() {
		defer close(read)
		l.read(ctx, replies)
	}()
	defer func() { <-read }()
	user, changed := l.wanted.get()
	l.tell(l.session.Want(user))
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			user, changed = l.wanted.get()
			l.tell(l.session.Want(user))
		case r := <-replies:
			l.log.Debug("vmop-agent", "code", r.Code, "text", r.Text)
			l.tell(l.session.Take(r))
		case e, ok := <-events:
			if !ok {
				return
			}
			if open, ours := l.port.change(e); ours && !open {
				l.closed(ctx)
			}
		}
	}
}

// read hands on what the agent says.
func (l *login) read(ctx context.Context, replies chan<- vmopagent.Reply) {
	for {
		r, err := l.conn.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, io.EOF) {
				l.log.Warn("vmop-agent cannot be heard any more", "error", err)
			}
			return
		}
		select {
		case replies <- r:
		case <-ctx.Done():
			return
		}
	}
}

// closed follows the end of an agent. It need not be the last word: another one may have begun, and said so, before the event
// has arrived.
func (l *login) closed(ctx context.Context) {
	if open, err := l.port.isOpen(ctx, l.monitor); err == nil && open {
		return
	}
	l.session.Close()
	l.tell("")
}

// tell sends a command, if there is one, and reports what is known.
func (l *login) tell(command string) {
	if command != "" {
		if err := l.conn.Send(command); err != nil {
			l.log.Warn("cannot tell vmop-agent", "error", err)
			l.session.Close()
		}
	}
	before, _ := l.report.status.get()
	now := l.session.State()
	if before.Login == now {
		return
	}
	l.report.update(func(s *Status) { s.Login = now })
	l.announce(before.Login, now)
}

// announce makes events of what has changed.
func (l *login) announce(before, now vmopagent.State) {
	event := func(warning bool, reason, message string) {
		if l.news.Allow() {
			l.report.event(warning, reason, message)
		}
	}
	switch {
	case now.Connected && !before.Connected:
		event(false, "VmopAgentConnected", "the guest's vmop-agent has begun")
	case before.Connected && !now.Connected:
		event(false, "VmopAgentDisconnected", "the guest's vmop-agent has ended")
	}
	switch {
	case now.User != before.User && now.User != "":
		event(false, "UserLoggedIn", now.User)
	case now.User != before.User && now.Connected:
		event(false, "UserLoggedOut", before.User)
	}
	if now.Failure != before.Failure && now.Failure != "" {
		event(true, "LoginFailed", fmt.Sprintf("%s: %s", now.Wanted, now.Failure))
	}
}

// user is the setting of who is logged in to the guest. That it takes the agent to do it is no reason to call the config not
// complied with: many guests have none.
type user struct {
	// login is nil for a VM without a channel.
	login *login
}

func (u *user) apply(_ context.Context, live *Live) error {
	switch name := live.LoggedInUser; {
	case name != "" && !vmopagent.ValidUser(name):
		return fmt.Errorf("%q is no name of a user that can be logged in", name)
	case u.login != nil:
		u.login.wanted.set(name)
	case name != "":
		return errors.New("the VM has no channel for VM-Operator's agent")
	}
	return nil
}

func (u *user) wakes(qmp.Event) bool { return false }
