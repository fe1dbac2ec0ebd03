package consoleserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cuvee-vm/cuvee/runner/serial"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 30 * time.Second

var discard = slog.New(slog.DiscardHandler)

const testToken = "0123456789abcdef"

// pod is a runner's server over TLS, with the guest's end of the serial port.
type pod struct {
	dir     string
	address string
	port    *serial.Port
	guest   net.Conn
	// log may be read when no client is there.
	log bytes.Buffer
}

func newPod(t testing.TB, limits Limits) *pod {
	t.Helper()
	return newPodWith(t, limits, nil)
}

// newPodWith makes one with a screen.
func newPodWith(t testing.TB, limits Limits, screen Screen) *pod {
	t.Helper()
	p := &pod{dir: t.TempDir(), port: serial.New(1 << 20)}
	p.write(t, TokenFile, []byte(testToken+"\n"))
	p.certify(t, "first")
	theirs, ours := socketPair(t)
	p.guest = theirs
	detach := p.port.Attach(ours)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	files := WatchFiles(ctx, p.dir, 10*time.Millisecond, discard)
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	s := New(Options{Serial: p.port, Screen: func() Screen { return screen }, Token: files.Token, Limits: &limits, Log: log})
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l, files.TLS()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		theirs.Close()
		detach()
	})
	return p
}

// socketPair is what a guest's serial port is connected with: a Unix socket, as with QEMU.
func socketPair(t testing.TB) (theirs, ours net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "serial"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if theirs, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return theirs, ours
}

func (p *pod) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// certify gives the server a certificate for a name.
func (p *pod) certify(t testing.TB, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, CertFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	p.write(t, KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func newClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// get returns status and body.
func (p *pod) get(t *testing.T, path, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := newClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// dial opens a websocket with the token, for the serial port.
func (p *pod) dial(t testing.TB, query string) *websocket.Conn {
	t.Helper()
	return p.open(t, "/console/serial"+query)
}

func (p *pod) open(t testing.TB, path string) *websocket.Conn {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + testToken}}
	ws, _, err := websocket.Dial(t.Context(), "wss://"+p.address+path, //nolint:bodyclose // A websocket has none.
		&websocket.DialOptions{HTTPClient: newClient(t), HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// next reads until there is a control message of a type, or output with a text.
func next(t testing.TB, ws *websocket.Conn, want string) control {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var output bytes.Buffer
	for {
		kind, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("waiting for %q after %d bytes of output: %v", want, output.Len(), err)
		}
		if kind == websocket.MessageBinary {
			output.Write(b)
			if strings.Contains(output.String(), want) {
				return control{}
			}
			continue
		}
		var m control
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m.Type == want {
			return m
		}
	}
}

func send(t testing.TB, ws *websocket.Conn, kind websocket.MessageType, text string) {
	t.Helper()
	if err := ws.Write(t.Context(), kind, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func (p *pod) hears(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if err := p.guest.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.guest, got); err != nil || string(got) != want {
		t.Errorf("the guest got %q (%v), want %q", got, err, want)
	}
}

// Without the token there is nothing, on no path; the right one gets in whatever wrong ones there are.
func TestToken(t *testing.T) {
	limits := DefaultLimits
	limits.Refusals, limits.RefusalsInRow = 0, 3
	p := newPod(t, limits)
	for _, token := range []string{"", "wrong", testToken + "x"} {
		if code, _ := p.get(t, "/console/serial/log", token); code != http.StatusUnauthorized {
			t.Errorf("token %q: status %d", token, code)
		}
	}
	if code, _ := p.get(t, "/nothing", ""); code != http.StatusTooManyRequests {
		t.Errorf("one more: status %d", code)
	}
	if code, _ := p.get(t, "/console/serial/log", testToken); code != http.StatusOK {
		t.Errorf("right token: status %d", code)
	}
	for token, want := range map[string]int{testToken: http.StatusServiceUnavailable, "wrong": http.StatusTooManyRequests} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.address+"/screenshot.png", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Sec-WebSocket-Protocol", protocol+", "+tokenProtocol+base64.RawURLEncoding.EncodeToString([]byte(token)))
		resp, err := newClient(t).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("subprotocol with %q: %s", token, resp.Status)
		}
	}
}

// A token that is another, too short, or gone, and another certificate, count without a restart.
func TestFilesAreFollowed(t *testing.T) {
	p := newPod(t, DefaultLimits)
	until := func(what string, condition func() bool) {
		t.Helper()
		deadline, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
		defer tick.Stop()
		for !condition() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("timed out waiting until %s", what)
			}
		}
	}
	code := func(token string) int {
		c, _ := p.get(t, "/console/serial/log", token)
		return c
	}
	p.write(t, TokenFile, []byte("fedcba9876543210"))
	until("the new token works", func() bool { return code("fedcba9876543210") == http.StatusOK })
	if code(testToken) == http.StatusOK {
		t.Error("the old token works")
	}
	p.write(t, TokenFile, []byte("short"))
	until("a short token lets nobody in", func() bool { return code("fedcba9876543210") != http.StatusOK })
	if code("short") == http.StatusOK || code("") == http.StatusOK {
		t.Error("a short token lets in")
	}
	p.certify(t, "second")
	until("there is another certificate", func() bool {
		c, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].DNSNames[0] == "second"
	})
	if _, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is served")
	}
}

// The newest writer types, who was it before is told and may take it back; readers type nothing, and a resize does nothing.
func TestSerialTakeOver(t *testing.T) {
	p := newPod(t, DefaultLimits)
	if _, err := p.guest.Write([]byte("login: ")); err != nil {
		t.Fatal(err)
	}
	first := p.dial(t, "?mode=write&tail=1000")
	next(t, first, "login: ")
	send(t, first, websocket.MessageText, `{"type":"resize","columns":80,"rows":25}`)
	send(t, first, websocket.MessageBinary, "a\x00\xff")
	p.hears(t, "a\x00\xff")

	reader := p.dial(t, "")
	start := next(t, reader, typeStart)
	if start.Stream != p.port.Stream() || start.Position == nil || *start.Position != 7 {
		t.Errorf("start is %+v", start)
	}
	send(t, reader, websocket.MessageBinary, "not heard")

	second := p.dial(t, "?mode=write")
	next(t, second, typeWriter)
	next(t, first, typeTakenOver)
	send(t, first, websocket.MessageBinary, "not heard")
	send(t, second, websocket.MessageBinary, "b")
	p.hears(t, "b")
	send(t, first, websocket.MessageText, `{"type":"takeOver"}`)
	next(t, second, typeTakenOver)
	send(t, first, websocket.MessageBinary, "c")
	p.hears(t, "c")

	// Who was cut off goes on where it was.
	if _, err := p.guest.Write([]byte("password: ")); err != nil {
		t.Fatal(err)
	}
	next(t, reader, "password: ")
	again := p.dial(t, "?position=7&stream="+p.port.Stream())
	if got := next(t, again, typeStart); *got.Position != 7 {
		t.Errorf("goes on at %d", *got.Position)
	}
	next(t, again, "password: ")
	if got := next(t, p.dial(t, "?position=7&stream=other"), typeStart); *got.Position != 0 {
		t.Errorf("another stream goes on at %d", *got.Position)
	}
	if _, log := p.get(t, "/console/serial/log?tail=10", testToken); log != "password: " {
		t.Errorf("log is %q", log)
	}
}

// What a client gets wrong is said, and ends nobody else's connection.
func TestSerialRefusals(t *testing.T) {
	p := newPod(t, DefaultLimits)
	for _, query := range []string{"?mode=admin", "?tail=-1", "?tail=x", "?tail=1&position=1", "?position=9223372036854775808"} {
		if code, body := p.get(t, "/console/serial"+query, testToken); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
	good := p.dial(t, "")
	for name, m := range map[string]struct {
		kind websocket.MessageType
		text string
		code websocket.StatusCode
	}{
		"NoJSON": {websocket.MessageText, "resize", websocket.StatusPolicyViolation},
		"Large":  {websocket.MessageBinary, strings.Repeat("x", 65537), websocket.StatusMessageTooBig},
	} {
		ws := p.dial(t, "")
		send(t, ws, m.kind, m.text)
		var err error
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
		if websocket.CloseStatus(err) != m.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.guest.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	next(t, good, "still here")
}

// One client too many is refused, and those that are there go on.
func TestSerialClientsAreLimited(t *testing.T) {
	limits := DefaultLimits
	limits.SerialClients = 3
	p := newPod(t, limits)
	good := p.dial(t, "")
	p.dial(t, "")
	p.dial(t, "")
	if code, _ := p.get(t, "/console/serial", testToken); code != http.StatusServiceUnavailable {
		t.Errorf("one client too many: %d", code)
	}
	if _, err := p.guest.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	next(t, good, "still here")
}

// A client that comes again and again does not fill the log.
func TestClientsInLog(t *testing.T) {
	var p *pod
	// After the server has ended.
	t.Cleanup(func() {
		if lines := strings.Count(p.log.String(), "serial client"); lines < 2 || lines > 100 {
			t.Errorf("the log has %d lines", lines)
		}
	})
	p = newPod(t, DefaultLimits)
	for range 100 {
		ws := p.dial(t, "")
		next(t, ws, typeStart)
		_ = ws.CloseNow()
	}
}

// Who only holds connections open, or never reads, is no trouble to the guest and to others.
func TestRudeClients(t *testing.T) {
	limits := DefaultLimits
	limits.Strangers = 4
	p := newPod(t, limits)
	for range 20 {
		c, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	still := make([]*websocket.Conn, 20)
	for i := range still {
		still[i] = p.dial(t, "")
	}
	good := p.dial(t, "")
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for range 500 {
		if err := p.guest.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.guest.Write(chunk); err != nil {
			t.Fatalf("the guest is held up: %v", err)
		}
	}
	if _, err := p.guest.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	next(t, good, "the end")
}
