package vmopagent

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newConn returns a Conn and the agent's end of it.
func newConn(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return NewConn(ours), theirs
}

// What is no line of the protocol, or too long for one, is left out, and what follows is heard.
func TestNext(t *testing.T) {
	c, agent := newConn(t)
	go func() {
		for _, said := range []string{
			"220 Hel", "lo\n", "\n", "nonsense\n", strings.Repeat("x", 5000) + "\n", "451 " + strings.Repeat("y", 5000) + "\n201 in\r\n", "202",
		} {
			_, _ = io.WriteString(agent, said)
		}
		agent.Close()
	}()
	var got []Reply
	var err error
	for err == nil {
		var r Reply
		if r, err = c.Next(t.Context()); err == nil {
			got = append(got, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("error is %v, want EOF", err)
	}
	if diff := cmp.Diff([]Reply{{220, "Hello"}, {201, "in"}}, got); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
}

// Who waits for an agent can stop that.
func TestNextEnds(t *testing.T) {
	c, _ := newConn(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want Canceled", err)
	}
}

// An agent that does not stop is not heard faster than at a certain pace.
func TestEndless(t *testing.T) {
	c, agent := newConn(t)
	written := make(chan int)
	go func() {
		sum := 0
		for {
			n, err := agent.Write([]byte("220 Hello\n" + strings.Repeat("x", 4096)))
			if sum += n; err != nil {
				written <- sum
				return
			}
		}
	}()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		_, _ = c.Next(ctx)
	}
	took := time.Since(begin)
	agent.Close()
	if sum, most := <-written, int(100+20*took.Seconds()+1)*maxLine+8192; sum > most {
		t.Errorf("%d bytes were taken in %v, want at most %d", sum, took, most)
	}
}

func TestSend(t *testing.T) {
	c, agent := newConn(t)
	got := make(chan string)
	go func() {
		buffer := make([]byte, 100)
		n, _ := agent.Read(buffer)
		got <- string(buffer[:n])
	}()
	if err := c.Send("login ann"); err != nil {
		t.Error(err)
	}
	if line := <-got; line != "login ann\n" {
		t.Errorf("agent reads %q", line)
	}
	// It does not read any more.
	if err := c.Send("logout"); err == nil || !strings.Contains(err.Error(), "does not read") {
		t.Errorf("error is %v", err)
	}
}
