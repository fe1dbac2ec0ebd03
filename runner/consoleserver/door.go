package consoleserver

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// door watches connections until they have shown a token. There is room for some; one more ends the oldest, which had the most time.
// So who only holds connections open holds them up for nobody else.
type door struct {
	room int

	mu        sync.Mutex
	strangers *list.List
}

func newDoor(room int) *door { return &door{room: room, strangers: list.New()} }

func (d *door) watch(l net.Listener) net.Listener { return &watchedListener{Listener: l, door: d} }

type watchedListener struct {
	net.Listener
	door *door
}

// sendBuffer is what the kernel keeps for a client. The backlog of a slow one is in the serial port, which is there anyway.
const sendBuffer = 64 << 10

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if b, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer)
	}
	return l.door.enter(c), nil
}

// watchedConn is a connection, with its place among the strangers while it is one.
type watchedConn struct {
	net.Conn
	door  *door
	place *list.Element
}

func (d *door) enter(c net.Conn) *watchedConn {
	w := &watchedConn{Conn: c, door: d}
	d.mu.Lock()
	w.place = d.strangers.PushBack(w)
	var oldest *watchedConn
	if d.strangers.Len() > d.room {
		oldest, _ = d.strangers.Front().Value.(*watchedConn)
	}
	d.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return w
}

// pass makes a connection no stranger any more.
func (d *door) pass(w *watchedConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.place != nil {
		d.strangers.Remove(w.place)
		w.place = nil
	}
}

func (w *watchedConn) Close() error {
	w.door.pass(w)
	return w.Conn.Close()
}

type connKey struct{}

// keepConn lets requests find their connection.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// welcome says that the client of a request is no stranger.
func welcome(req *http.Request) {
	if w, ok := req.Context().Value(connKey{}).(*watchedConn); ok {
		w.door.pass(w)
	}
}
