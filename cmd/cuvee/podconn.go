package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// dialPod connects to a port of a pod, by way of the API server and of kubelet ("port-forward"). Nothing listens on this machine.
func (c *cluster) dialPod(ctx context.Context, pod string, port int) (net.Conn, error) {
	dialer, err := c.podDialer(pod)
	if err != nil {
		return nil, err
	}
	type dialled struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{conn, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("connect to port %d of the pod %s/%s: %w", port, c.namespace, pod, c.failed(d.err))
		}
		conn, err := openPodConn(d.conn, pod, port)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to port %d of the pod %s/%s: %w", port, c.namespace, pod, err), d.conn.Close())
		}
		return conn, nil
	case <-ctx.Done():
		// It has a limit of its own; what comes of it is not wanted any more.
		go func() {
			if d := <-done; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// podDialer is for websockets, and for SPDY where the API server is too old for them, as kubectl does it.
func (c *cluster) podDialer(pod string) (httpstream.Dialer, error) {
	to, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, err
	}
	to = to.JoinPath("api", "v1", "namespaces", c.namespace, "pods", pod, "portforward")
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(to, c.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	return portforward.NewFallbackDialerForStreaming(websocket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// podConn is a connection to a port of a pod: two streams of a connection that has no others.
type podConn struct {
	conn   httpstream.Connection
	data   httpstream.Stream
	remote podAddr
	close  func() error
	// failed is what kubelet says went wrong; it is complete when told is closed.
	failed error
	told   chan struct{}
}

// portError is what kubelet says about a port that cannot be connected to.
type portError string

func (e portError) Error() string { return string(e) }

// podAddr is a port of a pod.
type podAddr string

func (podAddr) Network() string  { return "pod" }
func (a podAddr) String() string { return string(a) }

func openPodConn(conn httpstream.Connection, pod string, port int) (*podConn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	errs, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	// Nothing is written to it.
	if err := errs.Close(); err != nil {
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	p := &podConn{conn: conn, data: data, remote: podAddr(pod + ":" + strconv.Itoa(port)), told: make(chan struct{})}
	p.close = sync.OnceValue(func() error {
		// What was not sent yet is not wanted, and would hold up the end.
		return errors.Join(p.data.Reset(), p.conn.Close())
	})
	go p.hear(errs)
	return p, nil
}

// maxFailure is how much is read of what kubelet says.
const maxFailure = 4 << 10

// hear reads what kubelet says that went wrong; that ends with the connection.
func (p *podConn) hear(errs io.Reader) {
	defer close(p.told)
	if text, _ := io.ReadAll(io.LimitReader(errs, maxFailure)); len(text) > 0 {
		p.failed = portError(oneLine(string(text)))
	}
}

func (p *podConn) Read(b []byte) (int, error) {
	n, err := p.data.Read(b)
	if err == nil || n > 0 {
		return n, nil
	}
	// Why it ended comes at the same time.
	select {
	case <-p.told:
		if p.failed != nil {
			return 0, p.failed
		}
	case <-time.After(time.Second):
	}
	return 0, err
}

func (p *podConn) Write(b []byte) (int, error) { return p.data.Write(b) }
func (p *podConn) Close() error                { return p.close() }
func (p *podConn) LocalAddr() net.Addr         { return podAddr("here") }
func (p *podConn) RemoteAddr() net.Addr        { return p.remote }

// Deadlines are not there: who waits closes the connection instead.
func (p *podConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *podConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p *podConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
