// Package endpoint tells about a VM over HTTP: whether its runner lives (/healthz), whether its guest can be used (/readyz), and
// what Prometheus wants to know (/metrics).
package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// Source is the VM that is told about: a runner.VM.
type Source interface {
	// Status returns the newest status, and a channel that is closed when there is a newer one.
	Status() (runner.Status, <-chan struct{})
	// Metrics measures the VM. Without a running QEMU the error is runner.ErrNotRunning.
	Metrics(ctx context.Context) (runner.Metrics, error)
}

// measureTimeout is how long measuring may take: less than Prometheus waits (10 s).
const measureTimeout = 5 * time.Second

// Handler serves the endpoints. The version is the runner's.
func Handler(source func() Source, version string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		// A runner that answers is well. It must not be restarted because its QEMU is not: the guest would go with it.
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s, _ := source().Status()
		if !ready(s.State) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s.State)
	})
	// Those who ask too often wait for each other; QEMU is not asked for all of them at once.
	turn := make(chan struct{}, 1)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, req *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-req.Context().Done():
			return
		}
		ctx, cancel := context.WithTimeout(req.Context(), measureTimeout)
		defer cancel()
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(measure(ctx, source(), version))
	})
	return mux
}

// ready says whether there is a guest to connect to.
func ready(s runner.State) bool {
	switch s {
	case runner.Booting, runner.Booted, runner.Paused, runner.Terminating:
		return true
	default:
		return false
	}
}

// Listen opens the address. If that is taken, which happens where pods share the network of their node, it is any free port
// of the same host: a VM is worth more than a port number.
func Listen(ctx context.Context, address string, log *slog.Logger) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	free, freeErr := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if freeErr != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	log.Warn("cannot listen at the address, another port is used", "error", err, "address", free.Addr().String())
	return free, nil
}

// Serve serves until the context ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
