package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// consoleClient is a client of the console socket of a VM.
type consoleClient struct {
	http *http.Client
}

// console finds the console of a VM that runs in a home, as "cuvee console" does.
func (h *home) console(t *testing.T, name string) *consoleClient {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", h.runtime)
	socket, err := findConsole(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v (%v)", info, err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &consoleClient{http: &http.Client{Transport: transport}}
}

func (c *consoleClient) get(t *testing.T, path string) []byte {
	t.Helper()
	resp, err := c.http.Get("http://vm" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s (%v)", path, resp.Status, body, err)
	}
	return body
}

// The serial port and the screen of a VM can be used beside its terminal, by its name.
func TestRunConsole(t *testing.T) {
	h := newHome(t)
	run := h.start(t, "-f", "../../examples/hello.yaml", "--disk", "system="+demodisk.Copy(t))
	run.waitFor(t, "cuvee-demo: ready")
	c := h.console(t, "hello")

	if log := c.get(t, "/console/serial/log"); !bytes.Contains(log, []byte("cuvee-demo: ready")) {
		t.Errorf("the log has no ready:\n%s", log)
	}
	picture, err := png.Decode(bytes.NewReader(c.get(t, "/screenshot.png")))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds(); size.Dx() < 320 || size.Dy() < 200 {
		t.Errorf("the screen has %v", size)
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://vm/console/serial?mode=write", &websocket.DialOptions{HTTPClient: c.http}) //nolint:bodyclose // A websocket has none.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(ctx, websocket.MessageBinary, []byte("echo so; echo much\n")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for !strings.Contains(said.String(), "so\r\nmuch\r\n") {
		kind, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", said.String(), err)
		}
		if kind == websocket.MessageBinary {
			said.Write(b)
		} else if !json.Valid(b) {
			t.Errorf("control message %q", b)
		}
	}
	run.waitFor(t, "so\r\nmuch\r\n")
	if err := ws.Write(ctx, websocket.MessageBinary, []byte("poweroff\n")); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, _, err = ws.Read(ctx)
	}
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
		t.Errorf("the end is %v", err)
	}
	run.ends(t, 0, "")
	if _, err := findConsole("hello"); err == nil || !strings.Contains(err.Error(), "no such VM runs here") {
		t.Errorf("after the end: %v", err)
	}
}

// findConsole is the socket of a VM of this name.
func findConsole(name string) (string, error) {
	vm, err := localVM{want: identity{Namespace: "default", Name: name}}.find()
	if err != nil {
		return "", err
	}
	return vm.socket(), nil
}
