package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"image/png"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const (
	consoleToken = "0123456789abcdef"
	consoleHost  = "web.vms.vm.cuvee-vm.github.io"
)

// guestTalks writes to its first serial port as fast as it can.
var guestTalks = []byte{0xba, 0xf8, 0x03, 0xb0, 'A', 0xee, 0xeb, 0xfd}

// withConsole gives a config a serial port, a screen and VNC, and lets the VM be ended at once.
func withConsole(config map[string]any) {
	live("powerdownTimeout", 0)(config)
	boot := config["boot"].(map[string]any)
	boot["args"] = append(boot["args"].([]any),
		map[string]any{"option": "chardev", "value": "socket", "keys": map[string]any{"id": "serial0", "fd": map[string]any{"fd": "serial0"}}},
		map[string]any{"option": "device", "json": map[string]any{"driver": "isa-serial", "chardev": "serial0"}},
		map[string]any{"option": "device", "json": map[string]any{"driver": "VGA"}},
		map[string]any{"option": "vnc", "value": "none"},
	)
}

// console is a client of a runner's consoles.
type console struct {
	address string
	token   string
	roots   *x509.CertPool
	// files is the directory that the runner has its token and certificate from.
	files string
}

// startConsole starts a runner that serves consoles.
func startConsole(t *testing.T, guest []byte) (*process, *console) {
	t.Helper()
	p := newPod(t, guest, withConsole)
	c := &console{files: filepath.Join(p.dir, "console"), token: consoleToken}
	if err := os.Mkdir(c.files, 0o700); err != nil {
		t.Fatal(err)
	}
	c.put(t, "token", []byte(consoleToken))
	c.certify(t)
	r := p.start(t, "--console-listen", "127.0.0.1:0", "--console-dir", c.files)
	var served struct{ Address string }
	if err := json.Unmarshal([]byte(r.says(t, "serving consoles")), &served); err != nil {
		t.Fatal(err)
	}
	c.address = served.Address
	r.says(t, "VM is Booting")
	return r, c
}

// put replaces a file at once, as kubelet does.
func (c *console) put(t *testing.T, name string, data []byte) {
	t.Helper()
	path := filepath.Join(c.files, name)
	if err := errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// certify makes a new certificate, the only one that the client trusts from now on.
func (c *console) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{consoleHost}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c.roots = x509.NewCertPool()
	c.roots.AddCert(cert)
	c.put(t, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	c.put(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func (c *console) tls() *tls.Config { return &tls.Config{RootCAs: c.roots, ServerName: consoleHost} }

// client has a connection of its own for each request.
func (c *console) client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: c.tls(), DisableKeepAlives: true}}
}

// answer is that of a request.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

func (c *console) get(ctx context.Context, path string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.address+path, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body}, err
}

func (c *console) dial(ctx context.Context, path string) (*websocket.Conn, error) {
	ws, _, err := websocket.Dial(ctx, "wss://"+c.address+path, &websocket.DialOptions{ //nolint:bodyclose // A websocket has none.
		HTTPClient: c.client(), HTTPHeader: http.Header{"Authorization": {"Bearer " + c.token}},
	})
	return ws, err
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// The consoles of a runner are served over HTTPS. Token and certificate may change while it runs.
func TestConsole(t *testing.T) {
	t.Parallel()
	r, c := startConsole(t, guestTalks)
	code := func() int {
		a, err := c.get(t.Context(), "/console/serial/log?tail=10")
		if err != nil {
			return 0
		}
		return a.code
	}
	until(t, "the guest has written", func() bool {
		a, err := c.get(t.Context(), "/console/serial/log?tail=10")
		return err == nil && string(a.body) == strings.Repeat("A", 10)
	})
	picture, err := c.get(t.Context(), "/screenshot.png")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(picture.body)); err != nil {
		t.Errorf("screenshot: %v", err)
	}
	ws, err := c.dial(t.Context(), "/console/vnc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if kind, greeting, err := ws.Read(t.Context()); err != nil || kind != websocket.MessageBinary || !bytes.HasPrefix(greeting, []byte("RFB 003.")) {
		t.Errorf("VNC begins with %q (%v)", greeting, err)
	}

	c.token = "fedcba9876543210"
	if got := code(); got != http.StatusUnauthorized {
		t.Errorf("another token: status %d", got)
	}
	c.put(t, "token", []byte(c.token))
	until(t, "the new token counts", func() bool { return code() == http.StatusOK })
	c.certify(t)
	until(t, "the new certificate counts", func() bool { return code() == http.StatusOK })

	r.signal(t, syscall.SIGTERM)
	for err = nil; err == nil; {
		_, _, err = ws.Read(t.Context())
	}
	if got := websocket.CloseStatus(err); got != websocket.StatusGoingAway {
		t.Errorf("the end is %v", err)
	}
	r.ends(t, 4)
	if strings.Contains(r.out.String(), consoleToken) || strings.Contains(r.out.String(), c.token) {
		t.Error("a token is in the log")
	}
}
