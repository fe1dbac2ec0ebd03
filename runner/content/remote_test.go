package content_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// hurry is how long tests wait for a server.
var hurry = content.Patience{Stall: 30 * time.Second, Backoff: time.Millisecond, Tries: 3}

// handle starts a server.
func handle(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// reset ends the connection of an answer in the middle of it.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	// With this the peer gets a reset and not an orderly end.
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		panic(err)
	}
	conn.Close()
}

// partial answers with what a request asks for, but not to its end.
func partial(w http.ResponseWriter, r *http.Request, data []byte, most int) {
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	end := min(from+most, len(data))
	send(w, data[from:end])
	if end < len(data) {
		w.(http.Flusher).Flush()
		reset(w)
	}
}

// A connection that breaks again and again does no harm, with a server that knows ranges and with one that does not.
func TestFillOverBrokenConnections(t *testing.T) {
	data := diskBytes(8 * mib)
	var requests atomic.Int32
	tests := map[string]struct {
		handler  http.HandlerFunc
		checksum bool
	}{
		"Ranges": {handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"one"`)
			if requests.Add(1) > 1 && r.Header.Get("If-Range") != `"one"` {
				t.Errorf("got If-Range %q, want the ETag", r.Header.Get("If-Range"))
			}
			partial(w, r, data, mib)
		}},
		"NoRanges": {handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", time.Unix(1e9, 0).Format(http.TimeFormat))
			r.Header.Del("Range")
			partial(w, r, data, int(requests.Add(1))*2*mib)
		}},
		"NoRangesNoValidator": {checksum: true, handler: func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			partial(w, r, data, int(requests.Add(1))*2*mib)
		}},
		"ErrorsInBetween": {handler: func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1)%2 == 0 {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			partial(w, r, data, 2*mib)
		}},
		"ErrorsFirst": {handler: func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) < 3 {
				reset(w)
				return
			}
			partial(w, r, data, len(data))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			s := content.Source{URL: handle(t, tc.handler).URL, Patience: hurry}
			if tc.checksum {
				s.Checksum = sha256Of(data)
			}
			path := filepath.Join(t.TempDir(), "disk.img")
			if _, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil); err != nil {
				t.Fatal(err)
			}
			wantDisk(t, path, data, int64(len(data)))
		})
	}
}

// What a server does wrong has a reason, and leaves no disk.
func TestFillFromBadServers(t *testing.T) {
	data := diskBytes(4 * mib)
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	var requests atomic.Int32
	tests := map[string]struct {
		handler http.HandlerFunc
		want    content.Reason
	}{
		"NotFound":        {status(http.StatusNotFound), content.NotFound},
		"Gone":            {status(http.StatusGone), content.NotFound},
		"Unauthorized":    {status(http.StatusUnauthorized), content.Unauthorized},
		"Forbidden":       {status(http.StatusForbidden), content.Unauthorized},
		"ServerError":     {status(http.StatusInternalServerError), content.Unreachable},
		"TooMany":         {status(http.StatusTooManyRequests), content.Unreachable},
		"Teapot":          {status(http.StatusTeapot), content.InvalidSource},
		"RedirectToFile":  {redirect("file:///etc/passwd"), content.RedirectRefused},
		"RedirectToFTP":   {redirect("ftp://example.com/disk"), content.RedirectRefused},
		"RedirectForever": {redirect("/"), content.RedirectRefused},
		"Silence":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, content.Unreachable},
		"SilenceInTheMiddle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4194304")
			send(w, data[:mib])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, content.Unreachable},
		"ContentLengthTooLarge": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "5000000")
			if r.Header.Get("Range") == fmt.Sprintf("bytes=%d-", len(data)) {
				w.Header().Set("Content-Length", "0")
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			send(w, data)
		}, content.Truncated},
		"ContentLengthTooLargeNoRanges": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Last-Modified", time.Unix(1e9, 0).Format(http.TimeFormat))
			w.Header().Set("Content-Length", "5000000")
			send(w, data)
		}, content.Truncated},
		"ChangedInTheMiddle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, requests.Add(1)))
			r.Header.Del("Range")
			partial(w, r, data, mib)
		}, content.Unreachable},
		"ChangedInTheMiddleAllTheSameRange": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", fmt.Sprintf(`"%d"`, requests.Add(1)))
			partial(w, r, data, mib)
		}, content.Unreachable},
		"OtherRange": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				partial(w, r, data, mib)
				return
			}
			r.Header.Set("Range", "bytes=5-")
			partial(w, r, data, len(data))
		}, content.Unreachable},
		"OtherLength": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				partial(w, r, data, mib)
				return
			}
			partial(w, r, data[:len(data)-1], len(data))
		}, content.Unreachable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			patience := hurry
			if strings.HasPrefix(name, "Silence") {
				patience.Stall = 100 * time.Millisecond
			}
			path := filepath.Join(t.TempDir(), "disk.img")
			s := content.Source{URL: handle(t, tc.handler).URL + "/disk?token=secret", Patience: patience}
			_, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil)
			wantReason(t, err, tc.want)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has what was behind the question mark: %v", err)
			}
			wantNothing(t, path)
		})
	}
	t.Run("Nobody", func(t *testing.T) {
		server := handle(t, status(http.StatusOK))
		server.Close()
		_, err := content.Fill(t.Context(), content.Source{URL: server.URL, Patience: hurry}, content.Target{Path: filepath.Join(t.TempDir(), "disk.img")}, nil)
		wantReason(t, err, content.Unreachable)
	})
}

// A source that cannot be meant is refused before anything is done.
func TestFillInvalidSource(t *testing.T) {
	for name, s := range map[string]content.Source{
		"Nothing":          {},
		"Both":             {URL: "http://example.com", Path: "/disk"},
		"File":             {URL: "file:///etc/passwd"},
		"NoHost":           {URL: "http:///disk"},
		"NoAddress":        {URL: "http://[::1"},
		"Password":         {URL: "https://user:geheim@example.com/disk"},
		"MemberOfURL":      {URL: "http://example.com", Member: "disk/x"},
		"MemberOutside":    {Path: t.TempDir(), Member: "../../etc/passwd"},
		"Checksum":         {URL: "http://example.com", Checksum: "0123"},
		"ChecksumOther":    {URL: "http://example.com", Checksum: "md5:d41d8cd98f00b204e9800998ecf8427e"},
		"ChecksumTooShort": {URL: "http://example.com", Checksum: "sha256:d41d8cd98f00b204e9800998ecf8427e"},
		"Proxy":            {URL: "http://example.com", Proxy: "://"},
		"NoRegularFile":    {Path: "/dev/zero"},
		"MemberOfFile":     {Path: writeFile(t, []byte("x")), Member: "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			_, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil)
			wantReason(t, err, content.InvalidSource)
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error has the password: %v", err)
			}
			wantNothing(t, path)
		})
	}
}

// Credentials are for their server: another one that it sends us to does not see them, another port of the same host included.
func TestFillCredentials(t *testing.T) {
	data := diskBytes(mib)
	for name, tc := range map[string]struct {
		credentials content.Credentials
		want        string
	}{
		"Basic":  {content.Credentials{Username: "me", Password: "geheim"}, "Basic bWU6Z2VoZWlt"},
		"Bearer": {content.Credentials{Authorization: "Bearer geheim"}, "Bearer geheim"},
	} {
		t.Run(name, func(t *testing.T) {
			credentials := tc.credentials
			if text := fmt.Sprintf("%v %+v %#v", credentials, credentials, content.Source{Credentials: credentials}); strings.Contains(text, "geheim") {
				t.Errorf("printed, the credentials are %s", text)
			}
			other := handle(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "" {
					t.Errorf("the other server got the credentials %q", got)
				}
				send(w, data)
			})
			server := handle(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != tc.want {
					t.Errorf("the server got the credentials %q, want %q", got, tc.want)
				}
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/again", http.StatusFound)
					return
				}
				http.Redirect(w, r, other.URL, http.StatusFound)
			})
			path := filepath.Join(t.TempDir(), "disk.img")
			s := content.Source{URL: server.URL, Credentials: credentials, Patience: hurry}
			if _, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil); err != nil {
				t.Fatal(err)
			}
			wantDisk(t, path, data, mib)
		})
	}
}

// A server with a certificate of its own is trusted with the file that has it, and not without; it does not send us to http.
func TestFillTLS(t *testing.T) {
	data := diskBytes(mib)
	plain := serve(t, data)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			http.Redirect(w, r, plain, http.StatusFound)
			return
		}
		send(w, data)
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ca := writeFile(t, certificate)
	fill := func(t *testing.T, s content.Source) (string, error) {
		path := filepath.Join(t.TempDir(), "disk.img")
		s.Patience = hurry
		_, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil)
		return path, err
	}
	t.Run("Trusted", func(t *testing.T) {
		path, err := fill(t, content.Source{URL: server.URL, CAFile: ca})
		if err != nil {
			t.Fatal(err)
		}
		wantDisk(t, path, data, mib)
	})
	t.Run("Unknown", func(t *testing.T) {
		_, err := fill(t, content.Source{URL: server.URL})
		wantReason(t, err, content.Untrusted)
	})
	t.Run("NoCertificate", func(t *testing.T) {
		_, err := fill(t, content.Source{URL: server.URL, CAFile: writeFile(t, []byte("none"))})
		wantReason(t, err, content.Untrusted)
	})
	t.Run("RedirectToHTTP", func(t *testing.T) {
		_, err := fill(t, content.Source{URL: server.URL + "/plain", CAFile: ca})
		wantReason(t, err, content.RedirectRefused)
	})
}

// A proxy gets the request for the address.
func TestFillProxy(t *testing.T) {
	data := diskBytes(mib)
	proxy := handle(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "http://disks.example.com/disk.raw" {
			t.Errorf("the proxy was asked for %s", r.URL)
		}
		send(w, data)
	})
	path := filepath.Join(t.TempDir(), "disk.img")
	s := content.Source{URL: "http://disks.example.com/disk.raw", Proxy: proxy.URL}
	if _, err := content.Fill(t.Context(), s, content.Target{Path: path}, nil); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, path, data, mib)
}

// A server that is slow, but not silent, is waited for.
func TestFillSlow(t *testing.T) {
	data := diskBytes(64 << 10)
	// All of it takes longer than a silence may.
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		for chunk := range bytesIn(data, 4<<10) {
			send(w, chunk)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	path := filepath.Join(t.TempDir(), "disk.img")
	patience := hurry
	patience.Stall = 2 * time.Second
	if _, err := content.Fill(t.Context(), content.Source{URL: server.URL, Patience: patience, Checksum: sha256Of(data)}, content.Target{Path: path}, nil); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, path, data, int64(len(data)))
}

func bytesIn(data []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		r := bytes.NewReader(data)
		for chunk := make([]byte, size); ; {
			n, err := io.ReadFull(r, chunk)
			if n == 0 || !yield(chunk[:n]) || err != nil {
				return
			}
		}
	}
}

// send writes to a client, which may be gone.
func send(w io.Writer, data []byte) { _, _ = w.Write(data) }
