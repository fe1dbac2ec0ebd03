// Package consoleserver lets clients use a VM's serial port and screen over HTTP: its protocol is in docs/console.md.
//
// Who gets in may do everything; so in a pod it takes a token over TLS, and elsewhere a Unix socket that is its user's alone. No client can
// hold up the guest, or another client: each has its own deadlines, and there are limits to how many there are and what they may send.
package consoleserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner/serial"
)

// Screen is the VM that is shown: a runner.VM. Without a running QEMU both methods return an error.
type Screen interface {
	// VNC returns a new connection to the VNC server.
	VNC(ctx context.Context) (net.Conn, error)
	// Screenshot returns a PNG.
	Screenshot(ctx context.Context) ([]byte, error)
}

// Limits of what clients may do. Those in docs/console.md are DefaultLimits.
type Limits struct {
	// SerialClients, VNCClients and Logs are how many there may be at a time.
	SerialClients, VNCClients, Logs int
	// Strangers is how many connections there may be that have shown no token yet; one more ends the oldest of them.
	Strangers int
	// Screenshots is how many there may be per second, and in a row.
	Screenshots      rate.Limit
	ScreenshotsInRow int
	// Refusals is how many wrong tokens per second, and in a row, are told that they are wrong; others are told to come later.
	Refusals      rate.Limit
	RefusalsInRow int
	// Message is the size in bytes of the largest message of a client.
	Message int64
	// Write is how long a client may take to receive a message, at most 16 KiB.
	Write time.Duration
	// Type is how long the guest may take what was typed before it is lost.
	Type time.Duration
	// Ping is how often an idle client is asked whether it is there, and how long it may take to answer.
	Ping time.Duration
	// Screenshot is how long QEMU may take for one.
	Screenshot time.Duration
}

// DefaultLimits are those of a runner.
var DefaultLimits = Limits{
	SerialClients: 128, VNCClients: 8, Logs: 8, Strangers: 64,
	Screenshots: 2, ScreenshotsInRow: 4,
	Refusals: 1, RefusalsInRow: 10,
	Message: 64 << 10,
	Write:   30 * time.Second, Type: 5 * time.Second, Ping: 20 * time.Second, Screenshot: 15 * time.Second,
}

// Options of a server.
type Options struct {
	// Serial is the port that is read and typed at.
	Serial *serial.Port
	// Screen returns the current run of the VM, nil if there is none yet.
	Screen func() Screen
	// Token returns what clients have to show, "" if nobody gets in. Without the function everybody does.
	Token func() string
	// Limits are DefaultLimits if not given.
	Limits *Limits
	Log    *slog.Logger
}

// Server serves the consoles of one VM.
type Server struct {
	serial *serial.Port
	screen func() Screen
	token  func() string
	limits Limits
	log    *slog.Logger

	serialClients, vncClients, logs slots
	screenshots                     *rate.Limiter
	// drawing is held by the one screenshot that is made.
	drawing  slots
	refusals *rate.Limiter
	// noted are the clients that the log tells of.
	noted *rate.Limiter
}

// notes is how many clients per second the log tells of, notesInRow how many in a row. One that comes again and again is no news.
const (
	notes      = 1
	notesInRow = 20
)

// New makes a server.
func New(o Options) *Server {
	s := &Server{serial: o.Serial, screen: o.Screen, token: o.Token, limits: DefaultLimits, log: o.Log}
	if o.Limits != nil {
		s.limits = *o.Limits
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.serialClients, s.vncClients = make(slots, s.limits.SerialClients), make(slots, s.limits.VNCClients)
	s.logs, s.drawing = make(slots, s.limits.Logs), make(slots, 1)
	s.screenshots = rate.NewLimiter(s.limits.Screenshots, s.limits.ScreenshotsInRow)
	s.refusals = rate.NewLimiter(s.limits.Refusals, s.limits.RefusalsInRow)
	s.noted = rate.NewLimiter(notes, notesInRow)
	return s
}

// slots are places for clients.
type slots chan struct{}

// take takes a place, or tells the client that there is none. The place is given back by a read from the channel.
func (s slots) take(w http.ResponseWriter) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many clients", http.StatusServiceUnavailable)
		return false
	}
}

// note tells the log that a client has come. What is returned tells that it is gone, and why.
func (s *Server) note(req *http.Request, what string, args ...any) (gone func(error)) {
	level := slog.LevelInfo
	if !s.noted.Allow() {
		level = slog.LevelDebug
	}
	log := s.log.With("remote", req.RemoteAddr)
	log.Log(req.Context(), level, "console: "+what, args...)
	return func(err error) { log.Log(context.Background(), level, "console: "+what+" is gone", "error", err) }
}

// handler serves the paths until the context ends.
func (s *Server) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console/serial", func(w http.ResponseWriter, req *http.Request) { s.serveSerial(ctx, w, req) })
	mux.HandleFunc("GET /console/serial/log", s.serveLog)
	mux.HandleFunc("GET /console/vnc", func(w http.ResponseWriter, req *http.Request) { s.serveVNC(ctx, w, req) })
	mux.HandleFunc("GET /screenshot.png", s.serveScreenshot)
	return s.authorized(mux)
}

// Timeouts of requests that are no websockets. A client that does not say what it wants is not waited for.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = time.Minute
	maxHeader      = 16 << 10
)

// Serve serves until the context ends, and the last client has been told so; over TLS if there is a configuration for that.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	clients, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	handler := s.handler(clients)
	door := newDoor(s.limits.Strangers)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			running.Add(1)
			defer running.Done()
			handler.ServeHTTP(w, req)
		}),
		ConnContext:       keepConn,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// What clients do wrong is theirs to know.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	l = door.watch(l)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	err := server.Serve(l)
	end()
	running.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve consoles: %w", err)
}
