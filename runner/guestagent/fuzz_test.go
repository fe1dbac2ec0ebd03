package guestagent_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// FuzzReply lets a guest answer a command with anything. Whatever it is, what the client makes of it is harmless, and the next
// command gets its own reply.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", "\xff", "\xff\n", "null\n", `{"return": 1}` + "\n", `{"return": [{"name": "\u001b", "ip-addresses": [{"ip-address": "::1%\u0000"}]}]}` + "\n",
		`{"error": {"class": "\n", "desc": "\u202e"}}` + "\n", `{"return": {"version": "\ud800", "host-name": 5}}` + "\n", `{"return": [[[[`, "{\"return\": \"\xc3\"}\n",
		returns(usual["guest-get-osinfo"]), returns(usual["guest-network-get-interfaces"]),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var usually atomic.Bool
		c, _ := newAgent(t, func(c command) (string, bool) {
			return string(answer) + "\n{}\n", !usually.Load() && c.Execute != "guest-sync-delimited"
		})
		os, err := c.OS(later(t))
		harmless(t, os.PrettyName)
		var refused *guestagent.Error
		if errors.As(err, &refused) {
			harmless(t, refused.Class)
			harmless(t, refused.Desc)
		}
		all, _ := c.Interfaces(later(t))
		for _, i := range all {
			harmless(t, i.Name)
			for _, a := range i.Addresses {
				harmless(t, a)
			}
		}
		name, _ := c.Hostname(later(t))
		harmless(t, name)
		usually.Store(true)
		if version, err := c.Version(later(t)); err != nil || version != "7.2.22" {
			t.Errorf("after that the version is %q, error %v", version, err)
		}
	})
}
