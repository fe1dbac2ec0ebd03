package consoleserver

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Subprotocols that a client may offer; one that offers none is served, too. noVNC offers binary.
const (
	protocol    = "v1.console.cuvee-vm.github.io"
	vncProtocol = "binary"
)

// client is a websocket.
type client struct {
	conn   *websocket.Conn
	limits Limits
	// written is set when something was sent since the last look.
	written atomic.Bool
}

func (s *Server) accept(w http.ResponseWriter, req *http.Request, protocols ...string) (*client, error) {
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{
		Subprotocols: protocols,
		// A page of another origin has no token unless it was given one: there are no cookies.
		InsecureSkipVerify: true,
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(s.limits.Message)
	return &client{conn: conn, limits: s.limits}, nil
}

// write sends a message. The client has to take it in time; otherwise the connection is lost.
func (c *client) write(ctx context.Context, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Write)
	defer cancel()
	c.written.Store(true)
	return c.conn.Write(ctx, kind, b)
}

// keepAlive ends when an idle client is not there any more. One that is sent something is known by taking it.
func (c *client) keepAlive(ctx context.Context) error {
	tick := time.NewTicker(c.limits.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if c.written.Swap(false) {
			continue
		}
		if err := c.ping(ctx); err != nil {
			return err
		}
	}
}

func (c *client) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Ping)
	defer cancel()
	return c.conn.Ping(ctx)
}

// closing is what a client is told at the end.
type closing struct {
	code   websocket.StatusCode
	reason string
}

func (c closing) Error() string { return c.reason }

// errEnding is told when the server ends.
var errEnding = closing{websocket.StatusGoingAway, "the runner ends"}

// run runs all of a client's jobs until one of them ends, or the context does, and closes the connection.
func (c *client) run(serving context.Context, jobs ...func(context.Context) error) error {
	// A websocket that is being read when the context ends is cut off. The client has to be told first.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(serving))
	defer cancel(nil)
	ended := make(chan error, len(jobs)+1)
	var running sync.WaitGroup
	for _, job := range append(jobs, c.keepAlive) {
		running.Go(func() { ended <- job(ctx) })
	}
	var first error
	select {
	case first = <-ended:
	case <-serving.Done():
		first = errEnding
	}
	c.end(first)
	cancel(first)
	running.Wait()
	return first
}

// farewell is how long a client may take to hear why its connection ends.
const farewell = time.Second

// end closes the connection; with a reason if there is one that the client should know.
func (c *client) end(why error) {
	defer func() { _ = c.conn.CloseNow() }()
	var told closing
	if !errors.As(why, &told) {
		return
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_ = c.conn.Close(told.code, told.reason)
	}()
	// A client that does not listen must not hold up the end of the runner.
	select {
	case <-answered:
	case <-time.After(farewell):
	}
}
