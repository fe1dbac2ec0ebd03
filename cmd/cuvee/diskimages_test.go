package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/cmd/cuvee/diskimage"
	"github.com/cuvee-vm/cuvee/runner"
)

// What is at a URL with a checksum is fetched once for all VMs, and not at all for a disk that has content; without a checksum, or with
// credentials, it is left to the runner.
func TestSourcesAreFetchedOnce(t *testing.T) {
	const image = "the content of a disk"
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, image)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	full := filepath.Join(dir, "full.img")
	if err := os.WriteFile(full, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	images := &diskImages{cache: &diskimage.Cache{Dir: filepath.Join(dir, "cache")}, dir: dir}
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(image)))
	for _, step := range []struct {
		content runner.Content
		local   bool
		asked   int
	}{
		{runner.Content{Path: full, URL: server.URL, Checksum: sum}, false, 0},
		{runner.Content{Path: filepath.Join(dir, "a.img"), URL: server.URL}, false, 0},
		{runner.Content{Path: filepath.Join(dir, "a.img"), URL: server.URL, Checksum: sum, Credentials: &runner.Credentials{}}, false, 0},
		{runner.Content{Path: filepath.Join(dir, "a.img"), URL: server.URL, Checksum: sum}, true, 1},
		{runner.Content{Path: filepath.Join(dir, "b.img"), URL: server.URL + "/mirror", Checksum: sum}, true, 1},
	} {
		c := step.content
		if err := images.content(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if asked != step.asked {
			t.Errorf("%+v: the server was asked %d times, want %d", step.content, asked, step.asked)
		}
		u, err := url.Parse(c.URL)
		if err != nil || (u.Scheme == "file") != step.local {
			t.Fatalf("%+v: it comes from %s (%v)", step.content, c.URL, err)
		}
		if !step.local {
			continue
		}
		if got, err := os.ReadFile(u.Path); err != nil || string(got) != image {
			t.Errorf("the file has %q (%v)", got, err)
		}
	}
}
