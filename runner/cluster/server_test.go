package cluster

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 30 * time.Second

// quick is a pace for tests.
var quick = pace{least: time.Millisecond, most: 5 * time.Millisecond, settle: time.Second, last: patience, look: time.Millisecond}

var testVM = VM{Namespace: "vms", Name: "web"}

// seen is a request that arrived at a server.
type seen struct {
	method, path, query, contentType, token string
	body                                    map[string]any
}

// transport is an HTTPS server whose answers the test says. What an API server does with the requests is tested
// with a real one (see apiserver_test.go); this one is for what a network and a busy server do.
type transport struct {
	*httptest.Server
	credentials Credentials

	mu       sync.Mutex
	answer   func(seen) (int, any)
	arrivals chan seen
}

// serve starts a server. The answer's body is JSON; 0 cuts the connection.
func serve(t *testing.T, answer func(seen) (int, any)) *transport {
	t.Helper()
	s := &transport{answer: answer, arrivals: make(chan seen, 1000)}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	s.Server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	dir := t.TempDir()
	s.credentials = Credentials{Server: s.URL, TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")}
	write(t, s.credentials.TokenFile, "first\n")
	write(t, s.credentials.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s
}

func (s *transport) handle(w http.ResponseWriter, req *http.Request) {
	r := seen{
		method: req.Method, path: req.URL.Path, query: req.URL.RawQuery,
		contentType: req.Header.Get("Content-Type"), token: req.Header.Get("Authorization"),
	}
	data, _ := io.ReadAll(req.Body)
	_ = json.Unmarshal(data, &r.body)
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	code, body := answer(r)
	s.arrivals <- r
	if code == 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// answers changes what the server says from now on.
func (s *transport) answers(answer func(seen) (int, any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// next waits for the next request of a method.
func (s *transport) next(t *testing.T, method string) seen {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case r := <-s.arrivals:
			if r.method == method {
				return r
			}
		case <-deadline:
			t.Fatalf("no %s arrives", method)
		}
	}
}

// found is a VirtualMachine as a server answers with it.
func found(state string, conditions ...condition) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"uid": "u-1", "resourceVersion": "7"},
		"spec":     map[string]any{"vm": map[string]any{"state": state}},
		"status":   map[string]any{"conditions": conditions},
	}
}

// works answers every request with success.
func works(r seen) (int, any) {
	if r.method == http.MethodPost {
		return http.StatusCreated, r.body
	}
	return http.StatusOK, found("Running")
}

// away is a server that nobody reaches.
func away(seen) (int, any) { return 0, nil }

func failure(code int, reason string) (int, any) {
	return code, map[string]any{"kind": "Status", "reason": reason, "message": "no"}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
