package guestagent_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// What a guest tells arrives.
func TestCommands(t *testing.T) {
	c, _ := newAgent(t, nil)
	ctx := later(t)
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	version, err := c.Version(ctx)
	if err != nil || version != "7.2.22" {
		t.Errorf("version is %q, error %v", version, err)
	}
	name, err := c.Hostname(ctx)
	if err != nil || name != "web" {
		t.Errorf("name is %q, error %v", name, err)
	}
	os, err := c.OS(ctx)
	want := guestagent.OS{
		ID: "debian", Name: "Debian GNU/Linux", PrettyName: "Debian GNU/Linux 12 (bookworm)", Version: "12 (bookworm)", VersionID: "12",
		Machine: "x86_64", KernelRelease: "6.1.0-49-cloud-amd64", KernelVersion: "#1 SMP",
	}
	if diff := cmp.Diff(want, os); diff != "" || err != nil {
		t.Errorf("error %v; OS (-want +got):\n%s", err, diff)
	}
	interfaces, err := c.Interfaces(ctx)
	wantInterfaces := []guestagent.Interface{
		{Name: "eth0", MAC: "52:54:00:12:34:56", Addresses: []string{"10.0.2.15", "fe80::5054:ff:fe12:3456"}}, {Name: "tun0"},
	}
	if diff := cmp.Diff(wantInterfaces, interfaces); diff != "" || err != nil {
		t.Errorf("error %v; interfaces (-want +got):\n%s", err, diff)
	}
	frozen, err := c.Frozen(ctx)
	if err != nil || frozen {
		t.Errorf("frozen is %t, error %v", frozen, err)
	}
}

func TestShutdown(t *testing.T) {
	refused := &guestagent.Error{Class: "GenericError", Desc: "child process has failed to shutdown"}
	cases := map[string]struct {
		reason string
		answer string
		want   error
	}{
		"Silence": {reason: "There is no answer to a wish that is taken."},
		"Refusal": {reason: "An agent that cannot says so.", answer: refuses(refused.Class, refused.Desc), want: refused},
		"Answer":  {reason: "An agent that answers all the same has not refused.", answer: returns("{}")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, a := newAgent(t, func(c command) (string, bool) {
				if c.Execute == "guest-shutdown" && c.Arguments.Mode != "powerdown" {
					t.Errorf("mode is %q", c.Arguments.Mode)
				}
				return tc.answer, c.Execute == "guest-shutdown"
			})
			err := c.Shutdown(later(t))
			var got *guestagent.Error
			if (err == nil) != (tc.want == nil) || tc.want != nil && !(errors.As(err, &got) && *got == *refused) {
				t.Errorf("%s\nerror is %v, want %v", tc.reason, err, tc.want)
			}
			if diff := cmp.Diff([]string{"guest-shutdown"}, a.commands()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A guest that is gone at once has shut down.
func TestShutdownEnds(t *testing.T) {
	var a *agent
	ready := make(chan struct{})
	c, a := newAgent(t, func(c command) (string, bool) {
		<-ready
		if c.Execute == "guest-shutdown" {
			a.conn.Close()
			return "", true
		}
		return "", false
	})
	close(ready)
	if err := c.Shutdown(later(t)); err != nil {
		t.Error(err)
	}
	if err := c.Ping(later(t)); err == nil {
		t.Error("ping of what is gone succeeds")
	}
}

// Who does not answer to a sync gets no wish.
func TestShutdownWithoutAgent(t *testing.T) {
	c, a := newAgent(t, func(command) (string, bool) { return "", true })
	if err := c.Shutdown(soon(t)); !errors.Is(err, guestagent.ErrSilent) {
		t.Errorf("error is %v, want ErrSilent", err)
	}
	if got := a.commands(); got != nil {
		t.Errorf("agent got %v", got)
	}
}

// Whatever becomes of a freeze, the guest is thawed if it has failed.
func TestFreeze(t *testing.T) {
	frozen := []string{"guest-fsfreeze-freeze"}
	thawed := []string{"guest-fsfreeze-freeze", "guest-fsfreeze-thaw"}
	cases := map[string]struct {
		reason string
		freeze string
		late   bool
		want   int
		got    []string
	}{
		"Freezes": {reason: "A freeze stays.", freeze: returns("3"), want: 3, got: frozen},
		"Refuses": {reason: "A guest that could not freeze all may have frozen some.", freeze: refuses("GenericError", "failed"), got: thawed},
		"Hangs":   {reason: "A guest that is late may freeze yet.", late: true, got: thawed},
		"Garbled": {reason: "What is no number tells nothing.", freeze: returns(`"x"`), got: thawed},
		"TooMany": {reason: "Neither does one that nobody can count to.", freeze: returns(`1e400`), got: thawed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, a := newAgent(t, func(c command) (string, bool) { return tc.freeze, c.Execute == "guest-fsfreeze-freeze" })
			ctx := later(t)
			if tc.late {
				ctx = soon(t)
			}
			n, err := c.Freeze(ctx)
			if n != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("%s\n%d frozen, error %v", tc.reason, n, err)
			}
			if diff := cmp.Diff(tc.got, a.commands()); diff != "" {
				t.Errorf("%s\ncommands (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// A caller that does not wait any more is told so, and the channel can be used again.
func TestCancel(t *testing.T) {
	silent := make(chan struct{})
	c, _ := newAgent(t, func(c command) (string, bool) {
		select {
		case <-silent:
			return "", false
		default:
			return "", true
		}
	})
	ctx, cancel := context.WithCancelCause(later(t))
	gone := errors.New("gone")
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- c.Ping(ctx) }()
	}
	cancel(gone)
	for range 2 {
		if err := <-done; !errors.Is(err, gone) {
			t.Errorf("error is %v, want the cause", err)
		}
	}
	close(silent)
	if err := c.Ping(later(t)); err != nil {
		t.Error(err)
	}
}

// The end of QEMU is one.
func TestEnd(t *testing.T) {
	c, a := newAgent(t, nil)
	a.conn.Close()
	if err := c.Ping(later(t)); err == nil || errors.Is(err, guestagent.ErrSilent) {
		t.Errorf("error is %v, want %v or the like", err, io.EOF)
	}
}
