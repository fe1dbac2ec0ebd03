package guestagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

const (
	// DefaultTimeout is how long a command without a deadline may take.
	DefaultTimeout = 5 * time.Second
	// MaxReply is the size in bytes of the largest reply that is read. A guest with hundreds of network interfaces has one
	// of some 200 KB.
	MaxReply = 512 << 10
	// maxSkipped is how much is skipped to find the reply to a sync: what was left in buffers, or comes too late.
	maxSkipped = 1 << 20
)

// sentinel resets the parser of the one who reads it.
const sentinel = 0xFF

// Client is the host's end of a guest agent's channel. Its methods may be called by any number of goroutines; the agent
// gets one command after the other.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
	// turn holds a value while a command is under way.
	turn chan struct{}
}

// New makes a client of a connection, which stays the caller's to close.
func New(conn net.Conn) *Client {
	return &Client{conn: conn, in: bufio.NewReader(conn), turn: make(chan struct{}, 1)}
}

// execute runs a command and waits for its reply, until the context ends or, if it has no deadline, for DefaultTimeout. A
// refusal by the agent is an *Error.
func (c *Client) execute(ctx context.Context, command string, result any) error {
	err := c.exclusive(ctx, func() error {
		if err := c.send(command, nil); err != nil {
			return err
		}
		value, err := c.reply()
		if err != nil || result == nil {
			return err
		}
		if err := json.Unmarshal(value, result); err != nil {
			return fmt.Errorf("%w: %w", ErrGarbled, err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("guest agent: %s: %w", command, err)
	}
	return nil
}

// exclusive waits for its turn and calls f when the agent has answered a sync. What f reads and writes ends with the context.
func (c *Client) exclusive(ctx context.Context, f func() error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return cause(ctx, ctx.Err())
	}
	end := c.interruptBy(ctx)
	err := c.sync()
	if err == nil {
		err = f()
	}
	end()
	return cause(ctx, err)
}

// interruptBy makes reading and writing end with the context, until the function that it returns is called.
func (c *Client) interruptBy(ctx context.Context) func() {
	_ = c.conn.SetDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	return func() {
		if !stop() {
			// Or it would interrupt the next command.
			<-interrupted
		}
	}
}

// cause tells an agent that does not answer from a caller that does not wait any more.
func cause(ctx context.Context, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	if c := context.Cause(ctx); !errors.Is(c, context.DeadlineExceeded) {
		return c
	}
	return ErrSilent
}

// sync makes sure that the next line is the reply to the next command.
func (c *Client) sync() error {
	// A number that no earlier client has used: the channel may hold its replies.
	id := rand.Int64N(1 << 53)
	if _, err := c.conn.Write([]byte{sentinel}); err != nil {
		return err
	}
	if err := c.send("guest-sync-delimited", map[string]int64{"id": id}); err != nil {
		return err
	}
	for left := maxSkipped; ; {
		line, delimited, err := c.line(&left)
		if err != nil {
			return err
		}
		if !delimited {
			continue
		}
		var got int64
		if value, err := parse(line); err == nil && json.Unmarshal(value, &got) == nil && got == id {
			return nil
		}
	}
}

// send writes a command. The agent reads it as soon as its line ends.
func (c *Client) send(command string, args any) error {
	m := map[string]any{"execute": command}
	if args != nil {
		m["arguments"] = args
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = c.conn.Write(append(b, '\n'))
	return err
}

// reply reads the reply to a command.
func (c *Client) reply() (json.RawMessage, error) {
	left := MaxReply
	line, _, err := c.line(&left)
	if err != nil {
		return nil, err
	}
	return parse(line)
}

// parse takes a reply apart. A refusal is an *Error.
func parse(line []byte) (json.RawMessage, error) {
	var m struct {
		Return json.RawMessage `json:"return"`
		Error  *struct {
			Class string `json:"class"`
			Desc  string `json:"desc"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrGarbled, err)
	case m.Error != nil:
		return nil, &Error{Class: text(m.Error.Class), Desc: text(m.Error.Desc)}
	case m.Return == nil:
		return nil, fmt.Errorf("%w: neither return nor error", ErrGarbled)
	}
	return m.Return, nil
}

// line reads a line that is not empty, and tells whether a sentinel was in front of it. What was before that is left
// out. It counts down left, and gives up at 0.
func (c *Client) line(left *int) (line []byte, delimited bool, err error) {
	for ; *left > 0; *left-- {
		b, err := c.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil, false, io.EOF
		case err != nil:
			return nil, false, err
		case b == sentinel:
			line, delimited = line[:0], true
		case b != '\n':
			line = append(line, b)
		case len(line) > 0:
			return line, delimited, nil
		}
	}
	return nil, false, fmt.Errorf("%w: too much for a reply", ErrGarbled)
}
