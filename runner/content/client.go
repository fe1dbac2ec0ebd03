package content

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// maxRedirects is how often a server may send us on.
const maxRedirects = 10

// newClient makes a client for one source.
func newClient(s Source) (*http.Client, error) {
	proxy := http.ProxyFromEnvironment
	if s.Proxy != "" {
		u, err := url.Parse(s.Proxy)
		if err != nil || u.Host == "" {
			return nil, errorf(InvalidSource, "proxy: not an address")
		}
		proxy = http.ProxyURL(u)
	}
	roots, err := authorities(s.CAFile)
	if err != nil {
		return nil, err
	}
	first, err := url.Parse(s.URL)
	if err != nil {
		return nil, errorf(InvalidSource, "url: not an address")
	}
	transport := &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    30 * time.Second,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 1 << 20,
	}
	return &http.Client{
		Transport:     &authorized{next: transport, host: first, credentials: s.Credentials},
		CheckRedirect: checkRedirect,
	}, nil
}

// authorities returns those of the system and of a file, nil for only the system's.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, errorf(Untrusted, "read certificates: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(data) {
		return nil, errorf(Untrusted, "read certificates: %s has none in PEM", file)
	}
	return roots, nil
}

// authorized shows the credentials to the server that they are for, and to no other that it sends us to.
type authorized struct {
	next        http.RoundTripper
	host        *url.URL
	credentials Credentials
}

// RoundTrip adds the credentials to a copy of the request, so that they are not in one that is copied for a redirect.
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	c := a.credentials
	if c == (Credentials{}) || req.URL.Scheme != a.host.Scheme || req.URL.Host != a.host.Host {
		return a.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	if c.Authorization != "" {
		req.Header.Set("Authorization", c.Authorization)
	} else {
		req.SetBasicAuth(c.Username, c.Password)
	}
	return a.next.RoundTrip(req)
}

// checkRedirect goes to http and https addresses, and never from what is encrypted to what is not.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from, to := via[len(via)-1].URL, req.URL
	switch {
	case len(via) > maxRedirects:
		return errorf(RedirectRefused, "get %s: more than %d redirects", publicAddress(via[0].URL), maxRedirects)
	case to.Scheme != "http" && to.Scheme != "https":
		return errorf(RedirectRefused, "get %s: redirect to an address with the scheme %q, want http or https", publicAddress(from), to.Scheme)
	case from.Scheme == "https" && to.Scheme != "https":
		return errorf(RedirectRefused, "get %s: redirect from https to http, to the host %s", publicAddress(from), to.Host)
	}
	return nil
}

// withoutAddress removes the address from an error, which may have a secret in its query.
func withoutAddress(err error) error {
	if with, ok := errors.AsType[*url.Error](err); ok {
		return with.Err
	}
	return err
}

// isUntrusted says whether a connection failed because of the server's certificate.
func isUntrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}
