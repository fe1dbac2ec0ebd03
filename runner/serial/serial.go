// Package serial is a guest's serial port for many: it keeps the latest of what the guest wrote, lets any number of readers
// follow it, and one writer at a time type.
//
// The guest's output is always taken. A reader is no more than a position in what is kept, so that one that is slow, or stands
// still, costs nothing, loses the oldest output, and is told how much; it holds up neither the guest nor other readers.
package serial

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// DefaultSize is how many bytes of the guest's output are kept.
const DefaultSize = 1 << 20

// ErrTakenOver says that another writer has taken the port over.
var ErrTakenOver = errors.New("another writer has taken over the serial port")

// ErrClosed says that a reader was closed.
var ErrClosed = errors.New("reader is closed")

// Port is a serial port. It outlives the QEMU that it belongs to: what was written stays readable, and a later QEMU can be attached.
type Port struct {
	stream string

	mu sync.Mutex
	// ring holds the bytes up to position end; byte i of the stream is at i modulo its length. It grows until it has its size.
	ring []byte
	size int64
	end  int64
	// readers are woken when there is more.
	readers map[*Reader]struct{}
	line    *line
	writer  *Writer
}

// New makes a port that keeps this many bytes.
func New(size int) *Port {
	return &Port{stream: rand.Text(), size: int64(size), readers: make(map[*Reader]struct{})}
}

// Stream is a text that tells the output of this port from that of all others, as positions are counted in it.
func (p *Port) Stream() string { return p.stream }

// Range returns the positions of the first byte that is kept and of the next one that the guest will write.
func (p *Port) Range() (first, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first(), p.end
}

func (p *Port) first() int64 { return p.end - int64(len(p.ring)) }

// take keeps what the guest wrote, and wakes the readers.
func (p *Port) take(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if room := p.size - int64(len(p.ring)); room > 0 {
		// Not full yet, so byte i is at i.
		n := min(int64(len(b)), room)
		p.ring = append(p.ring, b[:n]...)
		p.end += n
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(p.ring[p.end%p.size:], b)
		p.end += int64(n)
		b = b[n:]
	}
	for r := range p.readers {
		r.wake()
	}
}

// Copy returns what is kept from a position on, and the position of its first byte.
func (p *Port) Copy(position int64) ([]byte, int64) {
	r := p.Reader(position)
	defer r.Close()
	p.mu.Lock()
	first, n := r.next, p.end-r.next
	p.mu.Unlock()
	b := make([]byte, n)
	read, lost := r.read(b)
	return b[:read], first + lost
}

// line is the connection to one QEMU.
type line struct {
	conn  net.Conn
	typed chan []byte
	// ended is closed when the guest can write no more, closed when nothing can be typed any more.
	ended, closed chan struct{}
}

// drain is how long the last output of a QEMU that is gone may take. It is in the socket already.
const drain = time.Second

// Attach connects the port with a QEMU. The function that is returned takes what is left of its output, and ends that. It has to be called before
// another QEMU is attached.
func (p *Port) Attach(conn net.Conn) (detach func()) {
	l := &line{conn: conn, typed: make(chan []byte), ended: make(chan struct{}), closed: make(chan struct{})}
	p.mu.Lock()
	p.line = l
	p.mu.Unlock()
	go p.listen(l)
	go l.speak()
	return sync.OnceFunc(func() {
		_ = conn.SetReadDeadline(time.Now().Add(drain))
		<-l.ended
		p.mu.Lock()
		p.line = nil
		p.mu.Unlock()
		close(l.closed)
		_ = conn.Close()
	})
}

func (p *Port) listen(l *line) {
	defer close(l.ended)
	chunk := make([]byte, 16<<10)
	for {
		n, err := l.conn.Read(chunk)
		p.take(chunk[:n])
		if err != nil {
			return
		}
	}
}

// speak hands on what is typed, as fast as the guest takes it.
func (l *line) speak() {
	for {
		select {
		case <-l.closed:
			return
		case b := <-l.typed:
			if _, err := l.conn.Write(b); err != nil {
				// QEMU is gone, or the port is detached.
				return
			}
		}
	}
}

// Reader is a position in the output from which it is read on.
type Reader struct {
	port  *Port
	more  chan struct{}
	ended chan struct{}
	close func()
	// next is the position of the next byte, guarded by the port's lock.
	next int64
}

// Reader reads from a position on, or from the first byte that is kept if the position is before that. One that is
// still to come is the next byte's. It has to be closed.
func (p *Port) Reader(position int64) *Reader {
	r := &Reader{port: p, more: make(chan struct{}, 1), ended: make(chan struct{})}
	r.close = sync.OnceFunc(func() { close(r.ended) })
	p.mu.Lock()
	defer p.mu.Unlock()
	r.next = min(max(position, p.first()), p.end)
	p.readers[r] = struct{}{}
	return r
}

// Position of the byte that is read next.
func (r *Reader) Position() int64 {
	r.port.mu.Lock()
	defer r.port.mu.Unlock()
	return r.next
}

// Close ends the reader, also a Read that is under way.
func (r *Reader) Close() {
	r.port.mu.Lock()
	defer r.port.mu.Unlock()
	delete(r.port.readers, r)
	r.close()
}

func (r *Reader) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Read waits for output and reads it. If lost is not zero, the reader was too slow: so many bytes before what was read are not kept
// any more.
func (r *Reader) Read(ctx context.Context, b []byte) (n int, lost int64, err error) {
	for {
		n, lost := r.read(b)
		if n > 0 || len(b) == 0 {
			return n, lost, nil
		}
		select {
		case <-r.more:
		case <-r.ended:
			return 0, 0, ErrClosed
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}

// read reads what is there.
func (r *Reader) read(b []byte) (n int, lost int64) {
	p := r.port
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := p.first(); r.next < first {
		lost = first - r.next
		r.next = first
	}
	for n < len(b) && r.next < p.end {
		from := r.next % p.size
		// At most to the end of the ring; the rest is at its beginning.
		upTo := min(from+p.end-r.next, int64(len(p.ring)))
		c := copy(b[n:], p.ring[from:upTo])
		n += c
		r.next += int64(c)
	}
	return n, lost
}

// CopyTo writes what the reader gets to w, until the reader is closed and has nothing left, the context ends, or w fails.
func (r *Reader) CopyTo(ctx context.Context, w io.Writer) error {
	b := make([]byte, 16<<10)
	for {
		n, _, err := r.Read(ctx, b)
		if err != nil {
			return err
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
	}
}

// Writer may type as long as no other has taken over.
type Writer struct {
	port *Port
	gone chan struct{}
}

// TakeOver makes the caller the port's writer. Who was it before is told.
func (p *Port) TakeOver() *Writer {
	w := &Writer{port: p, gone: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writer != nil {
		close(p.writer.gone)
	}
	p.writer = w
	return w
}

// TakenOver is closed when another writer has taken over.
func (w *Writer) TakenOver() <-chan struct{} { return w.gone }

// Gone says whether another writer has taken over. No writer at all is gone, too.
func (w *Writer) Gone() bool {
	if w == nil {
		return true
	}
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// Close gives the port up, if no other has it already.
func (w *Writer) Close() {
	if w == nil {
		return
	}
	w.port.mu.Lock()
	defer w.port.mu.Unlock()
	if w.port.writer == w {
		w.port.writer = nil
	}
}

// chunk is the most that is on its way to the guest when another writer takes over.
const chunk = 4 << 10

// Write types, as fast as the guest takes it. Without a QEMU what is typed is lost, as on a line that nobody listens to.
func (w *Writer) Write(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		if err := w.write(ctx, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (w *Writer) write(ctx context.Context, b []byte) error {
	w.port.mu.Lock()
	l := w.port.line
	w.port.mu.Unlock()
	if w.Gone() {
		return ErrTakenOver
	}
	if l == nil {
		return nil
	}
	// The caller's buffer is the caller's again before the guest has taken what is in it.
	b = append([]byte(nil), b...)
	select {
	case l.typed <- b:
		return nil
	case <-l.closed:
		return nil
	case <-w.gone:
		return ErrTakenOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
