package qmp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	goqemu "github.com/digitalocean/go-qemu/qmp"
	"golang.org/x/sys/unix"
)

// DefaultTimeout is how long a command without a deadline may take. QEMU answers most commands at once, but
// its main loop may be busy, for example with opening a file on a slow network.
const DefaultTimeout = 30 * time.Second

// MaxMessage is the size in bytes of the largest message that is read. QEMU's largest known reply, to
// query-qmp-schema, has some 200 KB; more than this means that the other side is no QEMU.
const MaxMessage = 16 << 20

// Version is QEMU's version as it introduces itself.
type Version = goqemu.Version

// Command is a command with its arguments.
type Command = goqemu.Command

// Event is something that QEMU tells unasked.
type Event = goqemu.Event

var _ goqemu.Monitor = (*Monitor)(nil)

// Monitor is a connection to one QEMU. Its methods may be called by any number of goroutines.
type Monitor struct {
	conn  io.ReadWriteCloser
	write chan outgoing
	hello chan Version
	done  chan struct{}

	latency latency

	mu        sync.Mutex
	lastID    uint64
	pending   map[uint64]chan reply
	subs      map[*Subscription]struct{}
	version   Version
	connected bool
	err       error
}

// outgoing is a command on its way, with a file that goes along with it or without one.
type outgoing struct {
	text []byte
	file *os.File
}

type reply struct {
	result json.RawMessage
	err    *Error
}

// message is anything that QEMU sends.
type message struct {
	Greeting *struct {
		Version Version `json:"version"`
	} `json:"QMP"`
	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	Event
}

// New makes a monitor of a connection and begins to read. The monitor owns the connection from now on.
// Connect has to be called before any command.
func New(conn io.ReadWriteCloser) *Monitor {
	m := &Monitor{
		conn:    conn,
		write:   make(chan outgoing),
		hello:   make(chan Version, 1),
		done:    make(chan struct{}),
		pending: make(map[uint64]chan reply),
		subs:    make(map[*Subscription]struct{}),
	}
	go m.readMessages()
	go m.writeCommands()
	return m
}

// Connect waits for QEMU's greeting and leaves the negotiation of capabilities, within DefaultTimeout.
func (m *Monitor) Connect() error {
	return m.ConnectContext(context.Background())
}

// ConnectContext is Connect with a context; a context without a deadline gets DefaultTimeout.
func (m *Monitor) ConnectContext(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	select {
	case v := <-m.hello:
		m.mu.Lock()
		m.version, m.connected = v, true
		m.mu.Unlock()
	case <-m.done:
		return fmt.Errorf("wait for QMP greeting: %w", m.Err())
	case <-ctx.Done():
		return fmt.Errorf("wait for QMP greeting: %w", context.Cause(ctx))
	}
	return m.Execute(ctx, "qmp_capabilities", nil, nil)
}

// Disconnect closes the connection. What waits for a reply gets ErrClosed.
func (m *Monitor) Disconnect() error {
	m.fail(ErrClosed)
	return nil
}

// Done is closed when the connection is lost or closed; Err then tells why.
func (m *Monitor) Done() <-chan struct{} {
	return m.done
}

// Err returns why the monitor ended, io.EOF if QEMU closed the connection, nil while it is there.
func (m *Monitor) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Version returns the version of QEMU. It is known after Connect.
func (m *Monitor) Version() Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// fail ends the monitor, once, for everybody who waits.
func (m *Monitor) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return
	}
	m.err = err
	close(m.done)
	// The reader may be held up in a Read that only this ends; what Close says about a connection that
	// is lost anyway is of no use.
	_ = m.conn.Close()
	for s := range m.subs {
		close(s.events)
	}
	clear(m.subs)
	clear(m.pending)
}

func (m *Monitor) readMessages() {
	limit := &io.LimitedReader{R: m.conn, N: MaxMessage}
	dec := json.NewDecoder(limit)
	for {
		var msg message
		if err := dec.Decode(&msg); err != nil {
			m.fail(readError(err, limit.N))
			return
		}
		limit.N = MaxMessage
		m.dispatch(&msg)
	}
}

// readError says what is behind the end of the stream: an error in the middle of a message is
// a lost connection as well, and one after MaxMessage bytes is our own limit.
func readError(err error, left int64) error {
	switch {
	case left <= 0:
		return fmt.Errorf("read QMP: message over %d bytes", MaxMessage)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isReset(err):
		return io.EOF
	default:
		return fmt.Errorf("read QMP: %w", err)
	}
}

func (m *Monitor) dispatch(msg *message) {
	switch {
	case msg.Greeting != nil:
		select {
		case m.hello <- msg.Greeting.Version:
		default:
		}
	case msg.Event.Event != "":
		m.publish(msg.Event)
	case msg.ID != nil:
		m.deliver(*msg.ID, reply{result: msg.Return, err: msg.Error})
	}
}

// deliver hands over a reply. Nobody waits any more for one that came after its deadline.
func (m *Monitor) deliver(id uint64, r reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.pending[id]; ok {
		delete(m.pending, id)
		c <- r
	}
}

func (m *Monitor) writeCommands() {
	for {
		select {
		case <-m.done:
			return
		case o := <-m.write:
			if err := m.send(o); err != nil {
				m.fail(readError(err, MaxMessage))
				return
			}
		}
	}
}

// send writes a command. A file goes with its first bytes.
func (m *Monitor) send(o outgoing) error {
	rest := o.text
	if o.file != nil {
		n, err := sendFile(m.conn, rest, o.file)
		if errors.Is(err, os.ErrClosed) {
			// Who sent the command does not wait for its reply any more.
			return nil
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	_, err := io.Copy(m.conn, bytes.NewReader(rest))
	return err
}

// sendFile sends a file with the beginning of a text, and returns how much of that was sent.
func sendFile(conn io.Writer, text []byte, file *os.File) (n int, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("a file can only be sent through a Unix socket")
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	// The descriptor cannot become another file's meanwhile.
	if controlErr := raw.Control(func(fd uintptr) {
		n, _, err = socket.WriteMsgUnix(text, unix.UnixRights(int(fd)), nil)
	}); controlErr != nil {
		return 0, fmt.Errorf("%w: %w", os.ErrClosed, controlErr)
	}
	return n, err
}

func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
