package vmopagent

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxUser is the length of the longest name of a user, in characters.
const maxUser = 64

// ValidUser tells whether a name can be that of a user to log in: letters, digits, _ . @ + \ and -, at most 64, no punctuation
// but _ in front. An agent's shells see the name as a word, and useradd as an argument. It is what schema/ says of
// spec.vm.display.loggedInUser. No regular expression: with \p{L} in it, one takes 2.5 MiB and milliseconds of each start.
func ValidUser(name string) bool {
	for i, r := range name {
		switch {
		case unicode.In(r, unicode.L, unicode.N), r == '_':
		case i > 0 && strings.ContainsRune(`.@+\-`, r):
		default:
			return false
		}
	}
	return name != "" && utf8.RuneCountInString(name) <= maxUser
}

// State is what is known of an agent and of the user in the guest.
type State struct {
	// Connected says that there is an agent.
	Connected bool
	// Wanted is the user who shall be logged in, empty for nobody.
	Wanted string
	// User is who the agent has logged in; empty for nobody.
	User string
	// Processing says that the agent has been told to log somebody in or out, and has not answered yet.
	Processing bool
	// Failure is the agent's last refusal; empty if what is wanted was not refused.
	Failure string
}

// Session is the state of one agent's channel. Its methods return the command to send, empty for none. One command is under way
// at a time, so that each answer has its question.
type Session struct {
	state State
	// asked is what the command under way is for, done what is so since the last answer; nil for none.
	asked, done *string
}

// State returns what is known.
func (s *Session) State() State { return s.state }

// Want sets who shall be logged in.
func (s *Session) Want(user string) string {
	if user == s.state.Wanted {
		return ""
	}
	s.state.Wanted, s.state.Failure = user, ""
	return s.next()
}

// Close is the end of the agent.
func (s *Session) Close() {
	*s = Session{state: State{Wanted: s.state.Wanted}}
}

// Take follows a reply.
func (s *Session) Take(r Reply) string {
	switch {
	case r.Code == codeHello:
		// One that greets again has begun anew.
		s.Close()
		s.state.Connected = true
	case r.Code == codeBye:
		s.Close()
	case s.asked == nil:
		// What nobody has asked for tells nothing.
		return ""
	case r.Code == codeLoggedIn && *s.asked != "", r.Code == codeLoggedOut && *s.asked == "":
		s.state.User = *s.asked
		s.done = s.asked
		s.answered("")
	case r.Code >= 400:
		// The one before was logged out for a login that failed.
		if *s.asked != "" {
			s.state.User = ""
		}
		s.done = nil
		s.answered(cmp.Or(r.Text, "refused"))
	}
	return s.next()
}

// answered ends a command. A refusal counts as long as the same is wanted.
func (s *Session) answered(failure string) {
	if *s.asked == s.state.Wanted {
		s.state.Failure = failure
	}
	s.asked, s.state.Processing = nil, false
}

// next is what to tell the agent now.
func (s *Session) next() string {
	if !s.state.Connected || s.asked != nil || s.state.Failure != "" || s.done != nil && *s.done == s.state.Wanted {
		return ""
	}
	user := s.state.Wanted
	s.asked, s.state.Processing = &user, true
	if user == "" {
		return "logout"
	}
	return "login " + user
}
