package consoleclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/coder/websocket"
)

// Place is a place in the output of a serial port.
type Place struct {
	// Stream names the port's output since the runner was started.
	Stream string
	// Position is how many bytes of it came before.
	Position int64
}

// SerialOptions say how a serial port is used.
type SerialOptions struct {
	// Write takes the port over: what is typed elsewhere is not heard any more.
	Write bool
	// From is where the output starts; without it, Tail bytes before what comes next.
	From *Place
	Tail int64
}

// Serial is a connection to a VM's serial port. Its methods may be called at the same time, but each by one goroutine only.
type Serial struct {
	conn *websocket.Conn
	at   Place
	// gap is how much of the output was lost before this connection, until it is told.
	gap int64
}

// Notice is something that the server tells.
type Notice string

// What a server tells.
const (
	// NoticeWriter: what is typed here reaches the guest.
	NoticeWriter Notice = "writer"
	// NoticeTakenOver: somebody else types now. What is typed here is left out.
	NoticeTakenOver Notice = "takenOver"
	// NoticeLost: some output is not there any more.
	NoticeLost Notice = "lost"
	// NoticeNotTaken: the guest did not take what was typed.
	NoticeNotTaken Notice = "notTaken"
)

// Message is either output, or a notice.
type Message struct {
	Output []byte
	Notice Notice
	// Bytes is how many were lost or not taken.
	Bytes int64
}

type control struct {
	Type     string `json:"type"`
	Stream   string `json:"stream,omitempty"`
	Position int64  `json:"position,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
}

// maxOutput is more than a server sends in one message.
const maxOutput = 1 << 20

// Serial connects to the serial port.
func (e *Endpoint) Serial(ctx context.Context, o SerialOptions) (*Serial, error) {
	q := url.Values{"mode": {"read"}}
	if o.Write {
		q.Set("mode", "write")
	}
	switch {
	case o.From != nil:
		q.Set("stream", o.From.Stream)
		q.Set("position", strconv.FormatInt(o.From.Position, 10))
	case o.Tail > 0:
		q.Set("tail", strconv.FormatInt(o.Tail, 10))
	}
	conn, err := e.dial(ctx, "/console/serial?"+q.Encode())
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxOutput)
	s := &Serial{conn: conn}
	if err := s.start(ctx); err != nil {
		_ = conn.CloseNow()
		return nil, fmt.Errorf("connect to the console: %w", err)
	}
	if o.From != nil && o.From.Stream == s.at.Stream {
		s.gap = s.at.Position - o.From.Position
	}
	return s, nil
}

// start reads where the output starts.
func (s *Serial) start(ctx context.Context) error {
	kind, data, err := s.conn.Read(ctx)
	if err != nil {
		return err
	}
	var c control
	if kind != websocket.MessageText || json.Unmarshal(data, &c) != nil || c.Type != "start" {
		return fmt.Errorf("the server does not say where the output starts")
	}
	s.at = Place{Stream: c.Stream, Position: c.Position}
	return nil
}

// Place is where the output that was read last ends. It is for the goroutine that reads.
func (s *Serial) Place() Place { return s.at }

// Read returns the next message. Messages that this client does not know are left out.
func (s *Serial) Read(ctx context.Context) (Message, error) {
	if lost := s.gap; lost > 0 {
		s.gap = 0
		return Message{Notice: NoticeLost, Bytes: lost}, nil
	}
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return Message{}, err
		}
		if kind == websocket.MessageBinary {
			s.at.Position += int64(len(data))
			return Message{Output: data}, nil
		}
		var c control
		if err := json.Unmarshal(data, &c); err != nil {
			return Message{}, fmt.Errorf("read a message of the console: %w", err)
		}
		switch n := Notice(c.Type); n {
		case NoticeLost:
			s.at.Position += c.Bytes
			fallthrough
		case NoticeWriter, NoticeTakenOver, NoticeNotTaken:
			return Message{Notice: n, Bytes: c.Bytes}, nil
		}
	}
}

// maxTyped is how much is sent in one message.
const maxTyped = 16 << 10

// Write types on the serial port.
func (s *Serial) Write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), maxTyped)
		if err := s.conn.Write(ctx, websocket.MessageBinary, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// TakeOver takes the port back from who has taken it over.
func (s *Serial) TakeOver(ctx context.Context) error {
	return s.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"takeOver"}`))
}

// Close ends the connection.
func (s *Serial) Close() error {
	return s.conn.Close(websocket.StatusNormalClosure, "")
}
