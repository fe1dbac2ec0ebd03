package guestagent_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// hostile are answers to one command that no agent should give; what comes after it is as usual. An answer with sync in front of
// its name is one to a sync.
var hostile = map[string]struct {
	reason string
	answer func(command) string
	want   error
}{
	"NoNewline":     {"A reply without an end is none.", func(command) string { return `{"return": {}}` }, guestagent.ErrSilent},
	"Silence":       {"Nothing is no reply.", func(command) string { return "" }, guestagent.ErrSilent},
	"EmptyLines":    {"Lines without anything are no replies.", func(command) string { return strings.Repeat("\n", 1000) }, guestagent.ErrSilent},
	"Huge":          {"A reply over the limit is not kept.", func(command) string { return `{"return": "` + strings.Repeat("x", 4<<20) + `"}` + "\n" }, guestagent.ErrGarbled},
	"HugeNoNewline": {"Neither is one that does not end.", func(command) string { return strings.Repeat("x", 4<<20) }, guestagent.ErrGarbled},
	"Deep":          {"Nesting is limited.", func(command) string { return returns(strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)) }, guestagent.ErrGarbled},
	"NotJSON":       {"A line of something else is nonsense.", func(command) string { return "login: \x1b[2J\n" }, guestagent.ErrGarbled},
	"Neither":       {"A reply says what it returns, or why not.", func(command) string { return "{}\n" }, guestagent.ErrGarbled},
	"Null":          {"Null is no reply.", func(command) string { return "null\n" }, guestagent.ErrGarbled},
	"Array":         {"An array is no reply.", func(command) string { return "[1]\n" }, guestagent.ErrGarbled},
	"OtherType":     {"A value of another type is nonsense.", func(command) string { return returns(`[[]]`) }, guestagent.ErrGarbled},
	"Refusal":       {"A refusal is one.", func(command) string { return refuses("GenericError", "no\x1b[2J\nwell") }, &guestagent.Error{}},
	"Sentinels":     {"Sentinels begin the line anew.", func(command) string { return "x\xff\xff" + returns(`{"version":"1","host-name":"h","id":"i"}`) }, nil},
	"Two": {"Of two replies the second one is too much.", func(command) string {
		return returns(`{"version":"1","host-name":"h","id":"i"}`) + returns(`{"version":"2"}`)
	}, nil},
	"sync/WrongID": {"A sync with another id is not ours.", func(c command) string { return fmt.Sprintf("\xff{\"return\": %d}\n", c.Arguments.ID+1) }, guestagent.ErrSilent},
	"sync/LateID":  {"That of an earlier one may come before.", func(c command) string { return "\xff{\"return\": 1}\n" + synced(c) }, nil},
	"sync/NoMark":  {"Without the sentinel it may be a reply of an earlier time.", func(c command) string { return strings.TrimPrefix(synced(c), "\xff") }, guestagent.ErrSilent},
	"sync/Text":    {"An id is a number.", func(c command) string { return "\xff{\"return\": \"1\"}\n" }, guestagent.ErrSilent},
	"sync/Float":   {"And no other one.", func(c command) string { return fmt.Sprintf("\xff{\"return\": %d.5}\n", c.Arguments.ID) }, guestagent.ErrSilent},
	"sync/Refusal": {"A refusal is not what is waited for.", func(c command) string { return "\xff" + refuses("GenericError", "no") }, guestagent.ErrSilent},
	"sync/Stale":   {"What was left behind is skipped.", func(c command) string { return returns(`{"version":"old"}`) + `{"return": {"ver` + synced(c) }, nil},
	"sync/Endless": {"But not without end.", func(c command) string { return strings.Repeat(returns(`{}`), 200_000) }, guestagent.ErrGarbled},
	"sync/Zeros":   {"Not even if it is one line.", func(c command) string { return strings.Repeat("\x00", 4<<20) }, guestagent.ErrGarbled},
}

// No agent holds up the client, or makes it keep what it sends; and the next command gets its own reply.
func TestHostile(t *testing.T) {
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			atSync := strings.HasPrefix(name, "sync/")
			answered := false
			c, _ := newAgent(t, func(c command) (string, bool) {
				if answered || atSync != (c.Execute == "guest-sync-delimited") {
					return "", false
				}
				answered = true
				return tc.answer(c), true
			})
			ctx := later(t)
			if errors.Is(tc.want, guestagent.ErrSilent) {
				ctx = soon(t)
			}
			_, err := c.Version(ctx)
			var refused *guestagent.Error
			switch {
			case errors.As(tc.want, &refused):
				if !errors.As(err, &refused) || refused.Desc != "no[2J well" {
					t.Errorf("%s\nerror is %v", tc.reason, err)
				}
			case !errors.Is(err, tc.want):
				t.Errorf("%s\nerror is %v, want %v", tc.reason, err, tc.want)
			}
			// Much may be left in the channel, of which a command skips a part.
			for range 8 {
				if err = c.Ping(later(t)); !errors.Is(err, guestagent.ErrGarbled) {
					break
				}
			}
			if err != nil {
				t.Fatalf("%s\nafter that: %v", tc.reason, err)
			}
			if version, err := c.Version(later(t)); err != nil || version != "7.2.22" {
				t.Errorf("%s\nafter that the version is %q, error %v", tc.reason, version, err)
			}
		})
	}
}

// An agent that never stops is held up by its own channel, and costs no memory.
func TestEndless(t *testing.T) {
	ours, theirs := socketPair(t)
	defer ours.Close()
	defer theirs.Close()
	written := make(chan int64)
	go func() {
		var sum int64
		for {
			n, err := theirs.Write([]byte(strings.Repeat(`{"return": {"a": [`, 4096)))
			if sum += int64(n); err != nil {
				written <- sum
				return
			}
		}
	}()
	c := guestagent.New(ours)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const commands = 20
	for range commands {
		if err := c.Ping(later(t)); err == nil {
			t.Fatal("ping succeeds")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("heap has grown by %d bytes", grown)
	}
	theirs.Close()
	if sum := <-written; sum > commands*2<<20 {
		t.Errorf("%d bytes were taken for %d commands", sum, commands)
	}
}

// Many elements of a list are not kept.
func TestManyInterfaces(t *testing.T) {
	address := `{"ip-address":"10.0.0.1"}`
	element := `{"name":"e","ip-addresses":[` + strings.Repeat(address+",", 99) + address + `]}`
	c, _ := newAgent(t, func(c command) (string, bool) {
		return returns("[" + strings.Repeat(element+",", 99) + element + "]"), c.Execute == "guest-network-get-interfaces"
	})
	all, err := c.Interfaces(later(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != guestagent.MaxInterfaces || len(all[0].Addresses) != guestagent.MaxAddresses {
		t.Errorf("%d interfaces with %d addresses", len(all), len(all[0].Addresses))
	}
}

// Elements that are none are left out.
func TestOddInterfaces(t *testing.T) {
	cases := map[string]string{
		"NoArray": `{}`, "Numbers": `[1, 2]`, "NoName": `[{"ip-addresses": []}]`, "Null": `null`,
		"OddAddresses": `[{"name": "e", "hardware-address": "x", "ip-addresses": [1, {"ip-address": "; rm"}, {"ip-address": "1.2.3"}]}]`,
	}
	for name, value := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := newAgent(t, func(c command) (string, bool) { return returns(value), c.Execute == "guest-network-get-interfaces" })
			all, err := c.Interfaces(later(t))
			for _, i := range all {
				if i.Name != "e" || i.MAC != "" || i.Addresses != nil {
					t.Errorf("interface %+v", i)
				}
			}
			if err != nil && !errors.Is(err, guestagent.ErrGarbled) {
				t.Error(err)
			}
		})
	}
}

// What a guest calls itself does no harm to those who read it.
func TestTexts(t *testing.T) {
	cases := map[string]struct{ given, want string }{
		"Plain":     {"web-1", "web-1"},
		"Escape":    {"a\x1b]0;evil\a", "a]0;evil"},
		"Newline":   {" a\r\n b\t", "a   b"},
		"Direction": {"a\u202eb\u200bc", "abc"},
		"NotUTF8":   {"a\xc3\x28\xed\xa0\x80b", "a(b"},
		"Long":      {strings.Repeat("ä", 1000), strings.Repeat("ä", 128)},
		"LongSplit": {"x" + strings.Repeat("ä", 1000), "x" + strings.Repeat("ä", 127)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := guestagent.Text(tc.given); got != tc.want {
				t.Errorf("%q becomes %q, want %q", tc.given, got, tc.want)
			}
		})
	}
}

// harmless checks a text of a guest's.
func harmless(t *testing.T, s string) {
	t.Helper()
	if len(s) > 256 || !utf8.ValidString(s) || strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		t.Errorf("text %q", s)
	}
}
