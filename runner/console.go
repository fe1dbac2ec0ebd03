package runner

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	// consoleBuffer is how many bytes of the guest's output wait for a slow reader.
	consoleBuffer = 256 << 10
	// consoleFlush is how long the reader may take for the rest of the output at the end.
	consoleFlush = time.Second
)

// console connects a serial port of the guest to a writer and a reader. It always takes the guest's output, so
// that a reader that is too slow, or stands still, loses the oldest output instead of stopping the guest.
type console struct {
	conn    net.Conn
	out     io.Writer
	written chan struct{}

	mu     sync.Mutex
	more   *sync.Cond
	buffer []byte
	ended  bool
}

func newConsole(conn net.Conn, in io.Reader, out io.Writer) *console {
	c := &console{conn: conn, out: out, written: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	if c.out == nil {
		c.out = io.Discard
	}
	go c.read()
	go c.write()
	if in != nil {
		// Ends with the next input after the connection is closed.
		go func() { _, _ = io.Copy(conn, in) }()
	}
	return c
}

// read takes the guest's output until the connection ends.
func (c *console) read() {
	chunk := make([]byte, 4096)
	for {
		n, err := c.conn.Read(chunk)
		c.mu.Lock()
		c.buffer = append(c.buffer, chunk[:n]...)
		if over := len(c.buffer) - consoleBuffer; over > 0 {
			c.buffer = append(c.buffer[:0], c.buffer[over:]...)
		}
		c.ended = err != nil
		c.more.Signal()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// write hands the output on, as fast as the writer takes it.
func (c *console) write() {
	defer close(c.written)
	for {
		c.mu.Lock()
		for len(c.buffer) == 0 && !c.ended {
			c.more.Wait()
		}
		chunk := c.buffer
		c.buffer = nil
		c.mu.Unlock()
		if len(chunk) == 0 {
			return
		}
		if _, err := c.out.Write(chunk); err != nil {
			// Nobody is there to read; the guest must be able to go on.
			c.out = io.Discard
		}
	}
}

// close ends the console when QEMU is gone, after what is left of the output has been handed on.
func (c *console) close() {
	// Everything that QEMU wrote can still be read, up to its end of the connection.
	_ = c.conn.SetReadDeadline(time.Now().Add(consoleFlush))
	select {
	case <-c.written:
	case <-time.After(consoleFlush):
	}
	c.conn.Close()
}
