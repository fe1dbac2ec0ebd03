package runner_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// A CD from a server whose certificate nobody vouches for is refused, says why, and leaves the VM alone. The same CD is taken when the
// config says that the certificate is not to be looked at, which the templates never do: it is the certificate that was refused.
func TestCDROMFromUntrustedServer(t *testing.T) {
	requireCurl(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cd.iso"), make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.FileServer(http.Dir(dir)))
	// That handshakes fail is what is tested.
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)

	file := map[string]any{"driver": "https", "url": web.URL + "/cd.iso"}
	m, _ := keptTray(t)
	insert := func() {
		m.change(func(c *runner.Config) {
			c.Live.CDROMs = map[string]map[string]any{"cd0": {"driver": "raw", "read-only": true, "file": file}}
		})
	}
	insert()
	s := m.waitFor("the server is refused", func(s runner.Status) bool { return len(s.Pending) > 0 })
	if p := s.Pending[0]; p.Waiting || !strings.Contains(strings.ToLower(p.Message), "certificate") {
		t.Errorf("%s is pending: %q, waiting %t; want a refusal of the certificate", p.Field, p.Message, p.Waiting)
	}
	if s.State != runner.Booting {
		t.Errorf("VM is %s, want %s", s.State, runner.Booting)
	}
	file["sslverify"] = false
	insert()
	m.waitFor("the CD is taken", func(s runner.Status) bool { return len(s.Pending) == 0 })
	if d := m.drive(); !strings.Contains(d.file, "cd.iso") {
		t.Errorf("the drive has %q", d.file)
	}
}

// requireCurl skips the test where QEMU cannot read from the web.
func requireCurl(t *testing.T) {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/*/qemu/block-curl.so"); len(found) == 0 {
		t.Skip("no block-curl.so: install qemu-block-extra")
	}
}
