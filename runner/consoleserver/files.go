package consoleserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cuvee-vm/cuvee/runner/filewatch"
)

// The files of a directory with a server's secrets.
const (
	TokenFile = "token"
	CertFile  = "tls.crt"
	KeyFile   = "tls.key"
)

// ErrNoCertificate says that there is no certificate (yet).
var ErrNoCertificate = errors.New("there is no certificate")

// Files are the token and the certificate of a server, as they are in the files now: they may come later, and change.
type Files struct {
	dir   string
	log   *slog.Logger
	token atomic.Pointer[string]
	pair  atomic.Pointer[tls.Certificate]
}

// WatchFiles follows the files of a directory until the context ends.
func WatchFiles(ctx context.Context, dir string, interval time.Duration, log *slog.Logger) *Files {
	f := &Files{dir: dir, log: log}
	changed := filewatch.Watch(ctx, interval, f.path(TokenFile), f.path(CertFile), f.path(KeyFile))
	f.read()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				f.read()
			}
		}
	}()
	return f
}

func (f *Files) path(name string) string { return filepath.Join(f.dir, name) }

// Token is what clients have to show, "" while there is none.
func (f *Files) Token() string {
	if t := f.token.Load(); t != nil {
		return *t
	}
	return ""
}

// TLS is the configuration of a server with the certificate.
func (f *Files) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := f.pair.Load(); pair != nil {
				return pair, nil
			}
			return nil, ErrNoCertificate
		},
	}
}

func (f *Files) read() {
	if err := f.readToken(); err != nil {
		f.log.Warn("console: nobody gets in", "error", err)
	}
	if err := f.readPair(); err != nil {
		f.log.Warn("console: the certificate is left out", "error", err)
	}
}

// readToken reads the token. One that was taken away lets nobody in any more.
func (f *Files) readToken() error {
	text, err := os.ReadFile(f.path(TokenFile))
	token := strings.TrimRight(string(text), "\r\n")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
	case len(token) < MinToken:
		err = fmt.Errorf("the token has %d bytes, want %d or more", len(token), MinToken)
		token = ""
	}
	f.token.Store(&token)
	return err
}

// readPair reads certificate and key. While they are not there, or do not fit each other, what was there before is used.
func (f *Files) readPair() error {
	pair, err := tls.LoadX509KeyPair(f.path(CertFile), f.path(KeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f.pair.Store(&pair)
	return nil
}
