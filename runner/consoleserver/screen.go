package consoleserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/cuvee-vm/cuvee/runner"
)

// noScreen is that of a VM that is not there yet.
type noScreen struct{}

func (noScreen) VNC(context.Context) (net.Conn, error)      { return nil, runner.ErrNotRunning }
func (noScreen) Screenshot(context.Context) ([]byte, error) { return nil, runner.ErrNotRunning }

func (s *Server) current() Screen {
	if screen := s.screen(); screen != nil {
		return screen
	}
	return noScreen{}
}

// serveScreenshot sends a picture. One is made at a time.
func (s *Server) serveScreenshot(w http.ResponseWriter, req *http.Request) {
	if !s.screenshots.Allow() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many screenshots", http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(req.Context(), s.limits.Screenshot)
	defer cancel()
	select {
	case s.drawing <- struct{}{}:
	case <-ctx.Done():
		http.Error(w, "other screenshots take too long", http.StatusServiceUnavailable)
		return
	}
	picture, err := s.current().Screenshot(ctx)
	<-s.drawing
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(picture)
}

// errQEMUEnded is told when the other side of a VNC connection is gone.
var errQEMUEnded = closing{websocket.StatusGoingAway, "QEMU has ended the VNC connection"}

func (s *Server) serveVNC(ctx context.Context, w http.ResponseWriter, req *http.Request) {
	if !s.vncClients.take(w) {
		return
	}
	defer func() { <-s.vncClients }()
	// First, so that a client without a VM gets an answer that says so.
	qemu, err := s.current().VNC(req.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer qemu.Close()
	c, err := s.accept(w, req, protocol, vncProtocol)
	if err != nil {
		return
	}
	gone := s.note(req, "VNC client")
	err = c.run(ctx,
		func(ctx context.Context) error { return c.fromQEMU(ctx, qemu) },
		func(ctx context.Context) error { return c.toQEMU(ctx, qemu) })
	gone(err)
}

// fromQEMU sends what QEMU has to say. QEMU itself keeps no more for a slow client than a screen.
func (c *client) fromQEMU(ctx context.Context, qemu net.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = qemu.Close() })()
	b := make([]byte, outputChunk)
	for {
		n, err := qemu.Read(b)
		if err != nil {
			return errQEMUEnded
		}
		if err := c.write(ctx, websocket.MessageBinary, b[:n]); err != nil {
			return err
		}
	}
}

func (c *client) toQEMU(ctx context.Context, qemu net.Conn) error {
	b := make([]byte, 4<<10)
	for {
		kind, message, err := c.conn.Reader(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary {
			return closing{websocket.StatusUnsupportedData, "VNC is in binary messages"}
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{qemu}, message, b); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return errQEMUEnded
			}
			return err
		}
	}
}
