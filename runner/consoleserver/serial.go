package consoleserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/cuvee-vm/cuvee/runner/serial"
)

// The types of control messages, which are JSON in text messages.
const (
	// Of the server.
	typeStart     = "start"
	typeLost      = "lost"
	typeTakenOver = "takenOver"
	typeWriter    = "writer"
	typeNotTaken  = "notTaken"
	// Of the client. All others, such as resize, are left out.
	typeTakeOver = "takeOver"
)

// control is a control message.
type control struct {
	Type string `json:"type"`
	// Stream and Position are where the output starts (typeStart).
	Stream   string `json:"stream,omitempty"`
	Position *int64 `json:"position,omitempty"`
	// Bytes is how many were lost (typeLost), or not taken by the guest (typeNotTaken).
	Bytes int64 `json:"bytes,omitempty"`
}

// wish is what a client asks for.
type wish struct {
	write    bool
	position int64
}

// parseWish reads the query.
func parseWish(q url.Values, port *serial.Port) (wish, error) {
	var want wish
	switch mode := q.Get("mode"); mode {
	case "", "read":
	case "write":
		want.write = true
	default:
		return wish{}, fmt.Errorf("mode %q is not valid, want read or write", mode)
	}
	first, end := port.Range()
	want.position = end
	switch {
	case q.Has("tail") && q.Has("position"):
		return wish{}, errors.New("tail and position exclude each other")
	case q.Has("tail"):
		n, err := count(q, "tail")
		if err != nil {
			return wish{}, err
		}
		want.position = max(first, end-n)
	case q.Has("position"):
		n, err := count(q, "position")
		if err != nil {
			return wish{}, err
		}
		want.position = n
		if q.Get("stream") != port.Stream() {
			// The runner has been started again since: all of its output is new.
			want.position = first
		}
	}
	return want, nil
}

// count reads a number of bytes.
func count(q url.Values, name string) (int64, error) {
	n, err := strconv.ParseUint(q.Get(name), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not valid, want a number of bytes", name, q.Get(name))
	}
	return int64(n), nil
}

// session is a client of the serial port.
type session struct {
	*client
	port   *serial.Port
	reader *serial.Reader
	// takes carries each time that the client takes the port over.
	takes chan *serial.Writer
	// stuck is set while the guest does not take what is typed.
	stuck bool
}

func (s *Server) serveSerial(ctx context.Context, w http.ResponseWriter, req *http.Request) {
	want, err := parseWish(req.URL.Query(), s.serial)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !s.serialClients.take(w) {
		return
	}
	defer func() { <-s.serialClients }()
	c, err := s.accept(w, req, protocol)
	if err != nil {
		return
	}
	gone := s.note(req, "serial client", "write", want.write)
	t := &session{client: c, port: s.serial, reader: s.serial.Reader(want.position), takes: make(chan *serial.Writer, 1)}
	defer t.reader.Close()
	if err := t.start(ctx); err != nil {
		_ = c.conn.CloseNow()
		return
	}
	err = t.run(ctx, t.show, func(ctx context.Context) error { return t.hear(ctx, want.write) }, t.watchWriter)
	gone(err)
}

func (t *session) tell(ctx context.Context, m control) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return t.write(ctx, websocket.MessageText, b)
}

// outputChunk is the size of the largest message with output.
const outputChunk = 16 << 10

// start says where the output starts.
func (t *session) start(ctx context.Context) error {
	position := t.reader.Position()
	return t.tell(ctx, control{Type: typeStart, Stream: t.port.Stream(), Position: &position})
}

// show sends the output.
func (t *session) show(ctx context.Context) error {
	b := make([]byte, outputChunk)
	for {
		n, lost, err := t.reader.Read(ctx, b)
		if err != nil {
			return err
		}
		if lost > 0 {
			if err := t.tell(ctx, control{Type: typeLost, Bytes: lost}); err != nil {
				return err
			}
		}
		if err := t.write(ctx, websocket.MessageBinary, b[:n]); err != nil {
			return err
		}
	}
}

// hear takes what the client sends.
func (t *session) hear(ctx context.Context, write bool) error {
	var writer *serial.Writer
	defer func() { writer.Close() }()
	takeOver := func() error {
		writer = t.port.TakeOver()
		t.stuck = false
		select {
		case t.takes <- writer:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if write {
		if err := takeOver(); err != nil {
			return err
		}
	}
	b := make([]byte, 4<<10)
	for {
		kind, message, err := t.conn.Reader(ctx)
		if err != nil {
			return err
		}
		if kind == websocket.MessageBinary {
			if err := t.typed(ctx, writer, message, b); err != nil {
				return err
			}
			continue
		}
		var m control
		if err := json.NewDecoder(message).Decode(&m); err != nil {
			return closing{websocket.StatusPolicyViolation, "a text message is no JSON object"}
		}
		if m.Type == typeTakeOver && writer.Gone() {
			if err := takeOver(); err != nil {
				return err
			}
		}
	}
}

// typed hands a message on to the guest. Of one that is not the writer it is left out.
func (t *session) typed(ctx context.Context, writer *serial.Writer, message io.Reader, b []byte) error {
	var notTaken int64
	for {
		n, err := message.Read(b)
		if n > 0 && !writer.Gone() {
			if t.press(ctx, writer, b[:n]) {
				t.stuck = false
			} else {
				t.stuck = true
				notTaken += int64(n)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if notTaken == 0 || writer.Gone() {
		return nil
	}
	return t.tell(ctx, control{Type: typeNotTaken, Bytes: notTaken})
}

// press types, and says whether the guest has taken it. One that did not take the last keys is not waited for again.
func (t *session) press(ctx context.Context, writer *serial.Writer, b []byte) bool {
	wait := t.limits.Type
	if t.stuck {
		wait = time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return writer.Write(ctx, b) == nil
}

// watchWriter tells the client when it has become the writer, and when another one has.
func (t *session) watchWriter(ctx context.Context) error {
	var taken <-chan struct{}
	for {
		var m control
		select {
		case <-ctx.Done():
			return ctx.Err()
		case writer := <-t.takes:
			taken = writer.TakenOver()
			m.Type = typeWriter
		case <-taken:
			taken = nil
			m.Type = typeTakenOver
		}
		if err := t.tell(ctx, m); err != nil {
			return err
		}
	}
}

// serveLog sends what is kept of the output.
func (s *Server) serveLog(w http.ResponseWriter, req *http.Request) {
	first, end := s.serial.Range()
	if q := req.URL.Query(); q.Has("tail") {
		n, err := count(q, "tail")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		first = max(first, end-n)
	}
	if !s.logs.take(w) {
		return
	}
	defer func() { <-s.logs }()
	// A copy, so that a slow client gets all of it while the guest goes on writing.
	text, first := s.serial.Copy(first)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cuvee-Stream", s.serial.Stream())
	h.Set("Cuvee-Position", strconv.FormatInt(first, 10))
	_, _ = w.Write(text)
}
