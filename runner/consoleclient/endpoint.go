// Package consoleclient uses a VM's serial port and screen, which package consoleserver serves: the protocol is in docs/console.md.
package consoleclient

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// protocol is the websockets' subprotocol.
const protocol = "v1.console.cuvee-vm.github.io"

// Endpoint is where the console of one VM is served.
type Endpoint struct {
	base   string
	client *http.Client
}

// Unix is the endpoint of a VM that runs on this machine: a socket that is its user's alone.
func Unix(path string) *Endpoint {
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	return New("http://console", &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}})
}

// New is the endpoint at a URL. What it takes to get in is the client's to bring.
func New(url string, client *http.Client) *Endpoint {
	return &Endpoint{base: url, client: client}
}

// StatusError is what a server says that does not do what it is asked for.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message is what the server says, in one line.
	Message string
}

func (e *StatusError) Error() string { return e.Message }

// maxMessage is how much is read of what a server says.
const maxMessage = 1 << 10

func statusError(r *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		line = r.Status
	}
	return &StatusError{Code: r.StatusCode, Message: line}
}

// get requests a path. The caller closes the body.
func (e *Endpoint) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return nil, err
	}
	r, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		defer r.Body.Close()
		return nil, statusError(r)
	}
	return r, nil
}

// maxScreenshot is far more than a PNG of all screens has.
const maxScreenshot = 256 << 20

// Screenshot returns a picture of the VM's screen, a PNG.
func (e *Endpoint) Screenshot(ctx context.Context) ([]byte, error) {
	r, err := e.get(ctx, "/screenshot.png")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return io.ReadAll(io.LimitReader(r.Body, maxScreenshot))
}

// Log writes what is kept of the serial port's output; with a tail of 0 or more only so many bytes of its end.
func (e *Endpoint) Log(ctx context.Context, w io.Writer, tail int64) error {
	path := "/console/serial/log"
	if tail >= 0 {
		path += "?tail=" + strconv.FormatInt(tail, 10)
	}
	r, err := e.get(ctx, path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(w, r.Body)
	return err
}

// VNC returns a new connection to the VM's VNC server. It ends with the context.
func (e *Endpoint) VNC(ctx context.Context) (net.Conn, error) {
	c, err := e.dial(ctx, "/console/vnc")
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(-1)
	return websocket.NetConn(ctx, c, websocket.MessageBinary), nil
}

func (e *Endpoint) dial(ctx context.Context, path string) (*websocket.Conn, error) {
	//nolint:bodyclose // The library has closed it, and left what it has read.
	c, r, err := websocket.Dial(ctx, e.base+path, &websocket.DialOptions{
		HTTPClient:      e.client,
		Subprotocols:    []string{protocol},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err == nil {
		return c, nil
	}
	if r != nil && r.StatusCode != http.StatusSwitchingProtocols {
		return nil, statusError(r)
	}
	return nil, fmt.Errorf("connect to the console: %w", err)
}
