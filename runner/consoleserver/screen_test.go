package consoleserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// slowScreen takes as long for a picture as the test wants; that of a QEMU is in the tests of commands.
type slowScreen struct {
	// draw is received from for each picture.
	draw chan struct{}
	// now and most are how many are being made, and were at a time.
	now, most atomic.Int32
	// qemu gets QEMU's end of each VNC connection.
	qemu chan net.Conn
	t    testing.TB
}

func newSlowScreen(t testing.TB) *slowScreen {
	return &slowScreen{draw: make(chan struct{}), qemu: make(chan net.Conn, 1), t: t}
}

func (s *slowScreen) Screenshot(ctx context.Context) ([]byte, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	select {
	case <-s.draw:
		return []byte("picture"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slowScreen) VNC(context.Context) (net.Conn, error) {
	theirs, ours := socketPair(s.t)
	s.qemu <- theirs
	return ours, nil
}

// Screenshots are made one at a time, and whoever wants many is told to come later.
func TestScreenshotLimits(t *testing.T) {
	limits := DefaultLimits
	limits.Screenshots, limits.ScreenshotsInRow = 0, 4
	screen := newSlowScreen(t)
	p := newPodWith(t, limits, screen)
	answers := make(chan int)
	for range 6 {
		go func() {
			code, _ := p.get(t, "/screenshot.png", testToken)
			answers <- code
		}()
	}
	count := map[int]int{}
	for range 2 {
		count[<-answers]++
	}
	if count[http.StatusTooManyRequests] != 2 {
		t.Fatalf("answers are %v, want two that come later", count)
	}
	for range 4 {
		screen.draw <- struct{}{}
		if code := <-answers; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	if screen.most.Load() != 1 {
		t.Errorf("%d were made at a time", screen.most.Load())
	}
}

// A QEMU that does not answer keeps nobody waiting longer than the limit, those neither who wait for their turn.
func TestScreenshotTakesTooLong(t *testing.T) {
	limits := DefaultLimits
	limits.Screenshot = 50 * time.Millisecond
	p := newPodWith(t, limits, newSlowScreen(t))
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			if code, body := p.get(t, "/screenshot.png", testToken); code != http.StatusServiceUnavailable || body == "" {
				t.Errorf("status %d with %q", code, body)
			}
		})
	}
	clients.Wait()
}

// VNC goes through unchanged both ways, in whatever pieces.
func TestVNC(t *testing.T) {
	limits := DefaultLimits
	limits.VNCClients = 1
	screen := newSlowScreen(t)
	p := newPodWith(t, limits, screen)
	ws := p.open(t, "/console/vnc")
	ws.SetReadLimit(-1)
	qemu := <-screen.qemu
	defer qemu.Close()
	if code, _ := p.get(t, "/console/vnc", testToken); code != http.StatusServiceUnavailable {
		t.Errorf("one client too many: %d", code)
	}

	client := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 3)
	}
	for name, way := range map[string]struct{ from, to net.Conn }{"ToClient": {qemu, client}, "ToQEMU": {client, qemu}} {
		go func() {
			for rest := sent; len(rest) > 0; {
				n := min(len(rest), 1+len(rest)/3%50000)
				if _, err := way.from.Write(rest[:n]); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				rest = rest[n:]
			}
		}()
		got := make([]byte, len(sent))
		if err := way.to.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way.to, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: it is not what was sent (%v)", name, err)
		}
	}
}

// Either end of VNC that goes takes the other one with it, and a client hears why.
func TestVNCEnds(t *testing.T) {
	screen := newSlowScreen(t)
	p := newPodWith(t, DefaultLimits, screen)
	for name, c := range map[string]struct {
		do   func(ws *websocket.Conn, qemu net.Conn) error
		want websocket.StatusCode
	}{
		"QEMU": {func(_ *websocket.Conn, qemu net.Conn) error { return qemu.Close() }, websocket.StatusGoingAway},
		"Text": {func(ws *websocket.Conn, _ net.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, []byte("RFB 003.008"))
		}, websocket.StatusUnsupportedData},
	} {
		ws := p.open(t, "/console/vnc")
		qemu := <-screen.qemu
		if err := c.do(ws, qemu); err != nil {
			t.Fatal(err)
		}
		_, _, err := ws.Read(t.Context())
		if websocket.CloseStatus(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if err := qemu.SetReadDeadline(time.Now().Add(patience)); err == nil {
			if _, err := qemu.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s: QEMU's end reads %v", name, err)
			}
		}
	}
}
