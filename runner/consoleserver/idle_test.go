package consoleserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A client that does not answer any more gives its place to others.
func TestIdleClientIsEnded(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits
	limits.SerialClients, limits.Ping = 1, 200*time.Millisecond
	p := newPod(t, limits)
	// It never reads, so it answers no ping.
	p.dial(t, "")
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		if code, _ := p.get(t, "/console/serial", testToken); code != http.StatusServiceUnavailable {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the client keeps its place")
		}
	}
}

// The oldest connection without a token makes room for a new one. One with the token stays.
func TestDoorEndsOldest(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits
	limits.Strangers = 2
	p := newPod(t, limits)
	good := p.dial(t, "")
	var strangers []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		strangers = append(strangers, c)
	}
	// Less than the time that a connection has for its first request.
	if err := strangers[0].SetReadDeadline(time.Now().Add(headerTimeout / 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := strangers[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest: %v, want its end", err)
	}
	if err := strangers[2].SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := strangers[2].Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("the newest: %v, want it to be open", err)
	}
	if _, err := io.Copy(p.guest, bytes.NewReader([]byte("still here"))); err != nil {
		t.Fatal(err)
	}
	next(t, good, "still here")
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
