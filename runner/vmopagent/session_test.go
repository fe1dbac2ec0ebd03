package vmopagent

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSession follows agents through their lives: each step is what is wanted ("=USER"), the agent's end ("close"), or a line of
// the agent's.
func TestSession(t *testing.T) {
	type step struct {
		on   string
		send string
		want State
	}
	cases := map[string]struct {
		reason string
		steps  []step
	}{
		"Login": {"A user is logged in as soon as there is an agent, and out when nobody is wanted.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"102 Desktop stopped", "", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 done", "", State{Connected: true, Wanted: "ann", User: "ann"}},
			{"=", "logout", State{Connected: true, User: "ann", Processing: true}},
			{"202 out", "", State{Connected: true}},
		}},
		"Nobody": {"An agent that begins is told to log out whom it finds.", []step{
			{"220 Hello", "logout", State{Connected: true, Processing: true}},
			{"202 out", "", State{Connected: true}},
			{"=ann", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "ann", User: "ann"}},
		}},
		"Other": {"Another user takes the place of the first.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "ann", User: "ann"}},
			{"=bob", "login bob", State{Connected: true, Wanted: "bob", User: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "bob", User: "bob"}},
		}},
		"ChangesMeanwhile": {"An answer is that to the question, not to the next one.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"=bob", "", State{Connected: true, Wanted: "bob", Processing: true}},
			{"201 in", "login bob", State{Connected: true, Wanted: "bob", User: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "bob", User: "bob"}},
		}},
		"ThereAndBack": {"Who is wanted again is there already.", []step{
			{"220 Hello", "logout", State{Connected: true, Processing: true}},
			{"=ann", "", State{Connected: true, Wanted: "ann", Processing: true}},
			{"=", "", State{Connected: true, Processing: true}},
			{"202 out", "", State{Connected: true}},
		}},
		"Refused": {"A refusal counts until something else is wanted.", []step{
			{"=root", "", State{Wanted: "root"}},
			{"220 Hello", "login root", State{Connected: true, Wanted: "root", Processing: true}},
			{"504 Won't log in root", "", State{Connected: true, Wanted: "root", Failure: "Won't log in root"}},
			{"=root", "", State{Connected: true, Wanted: "root", Failure: "Won't log in root"}},
			{"=ann", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"451", "", State{Connected: true, Wanted: "ann", Failure: "refused"}},
		}},
		"RefusedMeanwhile": {"A refusal of what is not wanted any more does not count.", []step{
			{"=root", "", State{Wanted: "root"}},
			{"220 Hello", "login root", State{Connected: true, Wanted: "root", Processing: true}},
			{"=ann", "", State{Connected: true, Wanted: "ann", Processing: true}},
			{"504 no", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
		}},
		"RefusedLogout": {"Who cannot be logged out is still there.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "ann", User: "ann"}},
			{"=", "logout", State{Connected: true, User: "ann", Processing: true}},
			{"451 busy", "", State{Connected: true, User: "ann", Failure: "busy"}},
		}},
		"Disconnects": {"Of an agent that is gone nothing is known, and the next one is told anew.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "ann", User: "ann"}},
			{"close", "", State{Wanted: "ann"}},
			{"201 in", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"240 Quit", "", State{Wanted: "ann"}},
		}},
		"BeginsAnew": {"One that greets again has forgotten what it was told.", []step{
			{"=ann", "", State{Wanted: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
			{"201 in", "", State{Connected: true, Wanted: "ann", User: "ann"}},
			{"220 Hello", "login ann", State{Connected: true, Wanted: "ann", Processing: true}},
		}},
		"Lies": {"What nobody has asked for tells nothing.", []step{
			{"201 in", "", State{}},
			{"220 Hello", "logout", State{Connected: true, Processing: true}},
			{"201 in", "", State{Connected: true, Processing: true}},
			{"202 out", "", State{Connected: true}},
			{"201 in", "", State{Connected: true}},
			{"451 no", "", State{Connected: true}},
			{"333 maybe", "", State{Connected: true}},
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s Session
			for i, st := range tc.steps {
				got := ""
				user, wants := strings.CutPrefix(st.on, "=")
				switch {
				case wants:
					got = s.Want(user)
				case st.on == "close":
					s.Close()
				default:
					r, ok := parse([]byte(st.on + "\n"))
					if !ok {
						t.Fatalf("%q is no reply", st.on)
					}
					got = s.Take(r)
				}
				if diff := cmp.Diff(st.want, s.State()); diff != "" || got != st.send {
					t.Errorf("%s\nstep %d, %q: sends %q, want %q; state (-want +got):\n%s", tc.reason, i, st.on, got, st.send, diff)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		line string
		want Reply
		ok   bool
	}{
		"Text":    {"220 Hello there\n", Reply{220, "Hello there"}, true},
		"CRLF":    {"201 in\r\n", Reply{201, "in"}, true},
		"Bare":    {"202\n", Reply{202, ""}, true},
		"Control": {"451 a\x1b[2Jb\u202e\xff\n", Reply{451, "a[2Jb"}, true},
		"Short":   {"22\n", Reply{}, false},
		"Empty":   {"\n", Reply{}, false},
		"Letters": {"2x0 Hello\n", Reply{}, false},
		"Long":    {"2200 Hello\n", Reply{}, false},
		"Dash":    {"220-Hello\n", Reply{}, false},
		"Blank":   {" 220 Hello\n", Reply{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := parse([]byte(tc.line))
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("%q: ok is %t; reply (-want +got):\n%s", tc.line, ok, diff)
			}
		})
	}
}

// A name is one word in one line, and no option.
func TestValidUser(t *testing.T) {
	for name, want := range map[string]bool{
		"ann": true, "Jörg": true, "ann.b@example.org": true, `EXAMPLE\ann`: true, "_apt": true, "a-b": true, strings.Repeat("a", 64): true,
		"": false, "-x": false, "a b": false, "a\nlogout": false, "a\x00": false, "../a": false, "*": false, "a;b": false, "$(x)": false,
		"ann\n": false, strings.Repeat("a", 65): false,
	} {
		if got := ValidUser(name); got != want {
			t.Errorf("%s: %t, want %t", strconv.Quote(name), got, want)
		}
	}
}

// FuzzSession lets an agent say anything. What is sent is never anything but what is wanted, and each command waits for the one before.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{"220 a\n201 b\n202 c\n", "220\n504 no\n220\n", "240 x\n201\n", "220 \x1b\xff\n\n999\n"} {
		f.Add(seed, "ann", "bob")
	}
	f.Fuzz(func(t *testing.T, said, first, second string) {
		if !ValidUser(first) || !ValidUser(second) {
			return
		}
		var s Session
		s.Want(first)
		open := 0
		check := func(sent string) {
			switch sent {
			case "":
			case "logout", "login " + first, "login " + second:
				open++
			default:
				t.Errorf("sends %q", sent)
			}
			if state := s.State(); open > 1 || state.Processing != (open == 1) || !state.Connected && (state.User != "" || state.Processing) {
				t.Errorf("%d commands are under way in %+v", open, state)
			}
		}
		for i, line := range strings.SplitAfter(said, "\n") {
			if i == 1 {
				check(s.Want(second))
			}
			r, ok := parse([]byte(line))
			if !ok {
				continue
			}
			before := s.State()
			sent := s.Take(r)
			if open == 1 && (r.Code == codeHello || r.Code == codeBye || before.Processing && (sent != "" || !s.State().Processing)) {
				open = 0
			}
			check(sent)
		}
	})
}
