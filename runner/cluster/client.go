package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrNoCluster says that this process does not run in a pod.
var ErrNoCluster = errors.New("not in a cluster")

// CredentialsDir is where kubelet puts what a pod's service account needs, unless the pod says otherwise.
const CredentialsDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// timeout is how long one request may take. Nothing that is asked for here takes the API server long.
const timeout = 10 * time.Second

// maxResponse is more than etcd would hold of one object.
const maxResponse = 16 << 20

// Client sends requests to the API server that its pod's service account is for.
//
// It is not client-go, whose packages would be a third of a runner's memory: there is a runner for each VM, and the few requests
// that it sends are plain HTTP with a token.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// Credentials say where an API server is, and how to get in.
type Credentials struct {
	// Server is the URL of the API server.
	Server string
	// TokenFile holds a bearer token, CAFile the certificates of the server's authority. Both are read anew
	// when they are needed, as kubelet replaces them while the pod runs.
	TokenFile, CAFile string
}

// InCluster returns the credentials in a directory of the pod that this process runs in, or ErrNoCluster.
func InCluster(dir string) (Credentials, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Credentials{}, ErrNoCluster
	}
	return Credentials{
		Server:    "https://" + net.JoinHostPort(host, port),
		TokenFile: filepath.Join(dir, "token"),
		CAFile:    filepath.Join(dir, "ca.crt"),
	}, nil
}

// NewClient makes a client. It does not connect.
func NewClient(c Credentials) *Client {
	return &Client{
		server: strings.TrimSuffix(c.Server, "/"),
		token:  c.TokenFile,
		http: &http.Client{Transport: &http.Transport{
			// One connection of HTTP/1.1 is all that a runner needs. One that leads nowhere any more is given up with
			// the request that finds out; with HTTP/2 all later requests would wait for it.
			DialTLSContext:  dialer{c.CAFile}.dial,
			MaxIdleConns:    2,
			IdleConnTimeout: 90 * time.Second,
		}},
	}
}

// dialer makes connections that trust the authority in a file as it is at that moment.
type dialer struct{ caFile string }

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ca, err := os.ReadFile(d.caFile)
	if err != nil {
		return nil, fmt.Errorf("read authority of the API server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read authority of the API server: no certificate in %s", d.caFile)
	}
	t := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return t.DialContext(ctx, network, address)
}

// The content types of bodies.
const (
	contentJSON  = "application/json"
	contentMerge = "application/merge-patch+json"
	contentApply = "application/apply-patch+yaml"
)

// request is one request to the API server.
type request struct {
	method, path, contentType string
	query                     url.Values
	// body is sent as JSON, which is also YAML.
	body any
}

// do sends a request and reads the response's body into the result, unless that is nil. Its errors wrap *APIError if there
// was a response.
func (c *Client) do(ctx context.Context, r request, result any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := c.prepare(ctx, r)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read response of the API server: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return apiError(resp, body)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(body, result); err != nil {
		return fmt.Errorf("read response of the API server: %w", err)
	}
	return nil
}

func (c *Client) prepare(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	address := c.server + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	token, err := os.ReadFile(c.token)
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", contentJSON)
	req.Header.Set("User-Agent", FieldManager)
	if r.body != nil {
		req.Header.Set("Content-Type", r.contentType)
	}
	return req, nil
}

// APIError is a response of an API server that says no.
type APIError struct {
	// Code is the HTTP status.
	Code int
	// Reason is Kubernetes' word for it, such as "NotFound"; it may be empty.
	Reason string
	// Message is meant for people.
	Message string
	// RetryAfter is how long the server wants not to be asked again, 0 if it does not say.
	RetryAfter time.Duration
}

func (e *APIError) Error() string {
	return fmt.Sprintf("API server says %d %s: %s", e.Code, e.Reason, e.Message)
}

func apiError(resp *http.Response, body []byte) error {
	e := &APIError{Code: resp.StatusCode}
	var status struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) == nil {
		e.Reason, e.Message = status.Reason, status.Message
	} else {
		// A proxy, or a server that is not ready, does not speak JSON.
		e.Message = string(body[:min(len(body), 200)])
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// hasCode tells whether an error is a response with that HTTP status.
func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*APIError](err)
	return ok && e.Code == code
}
