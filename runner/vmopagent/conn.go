package vmopagent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/time/rate"
)

// maxLine is the length in bytes of the longest line that is read; a longer one is left out.
const maxLine = 512

// sendTimeout is how long a command may take to be taken over by QEMU, which keeps some for an agent that is slow.
const sendTimeout = time.Second

// Conn is the host's end of the agent's channel.
type Conn struct {
	conn  net.Conn
	in    *bufio.Reader
	limit *rate.Limiter
}

// NewConn makes a Conn of a connection, which stays the caller's to close.
func NewConn(conn net.Conn) *Conn {
	return &Conn{
		conn: conn, in: bufio.NewReaderSize(conn, maxLine),
		// An agent says a few lines in a session. One that does not stop waits, and does not keep the host busy.
		limit: rate.NewLimiter(20, 100),
	}
}

// Next waits for the next reply. What is no reply is left out. It ends with the context and with the connection (io.EOF). It is for
// one goroutine.
func (c *Conn) Next(ctx context.Context) (Reply, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for whole := true; ; {
		if err := c.limit.Wait(ctx); err != nil {
			return Reply{}, err
		}
		line, err := c.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			whole = false
			continue
		case err != nil && ctx.Err() != nil:
			return Reply{}, ctx.Err()
		case errors.Is(err, io.EOF):
			return Reply{}, io.EOF
		case err != nil:
			return Reply{}, fmt.Errorf("read from vmop-agent: %w", err)
		}
		if r, ok := parse(line); ok && whole {
			return r, nil
		}
		whole = true
	}
}

// Send sends a command. An agent that does not read is an error after a short time.
func (c *Conn) Send(command string) error {
	_ = c.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := io.WriteString(c.conn, command+"\n"); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errors.New("agent does not read")
		}
		return fmt.Errorf("write to vmop-agent: %w", err)
	}
	return nil
}
