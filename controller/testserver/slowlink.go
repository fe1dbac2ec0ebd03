package testserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// slowLink passes TCP connections on, and can delay what they carry.
type slowLink struct {
	listener net.Listener
	target   string
	delay    atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newSlowLink(target string) (*slowLink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &slowLink{listener: l, target: target, conns: map[net.Conn]bool{}}
	go s.serve()
	return s, nil
}

// Addr is where it listens.
func (s *slowLink) Addr() string { return s.listener.Addr().String() }

// SetDelay sets how long each piece of data takes.
func (s *slowLink) SetDelay(d time.Duration) { s.delay.Store(int64(d)) }

// Close ends all connections.
func (s *slowLink) Close() {
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *slowLink) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", s.target)
		if err != nil {
			conn.Close()
			continue
		}
		s.mu.Lock()
		s.conns[conn], s.conns[to] = true, true
		s.mu.Unlock()
		go s.pass(conn, to)
		go s.pass(to, conn)
	}
}

// pass copies until one side ends, and then ends both.
func (s *slowLink) pass(from, to net.Conn) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range []net.Conn{from, to} {
			c.Close()
			delete(s.conns, c)
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if d := time.Duration(s.delay.Load()); d > 0 && n > 0 {
			<-time.After(d)
		}
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}
