package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The cluster hears how a disk is filled: why it cannot be, how far it is, and that it is done. Nobody hears what the server wants to see.
func TestReportsImport(t *testing.T) {
	t.Parallel()
	const size, piece = 8 << 20, 16 << 10
	hurry := make(chan struct{})
	finish := sync.OnceFunc(func() { close(hurry) })
	t.Cleanup(finish)
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" || r.URL.Path != "/disk.raw" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Length", "8388608")
		// Slowly, until the test has seen enough.
		for range size / piece {
			if _, err := w.Write(bytes.Repeat([]byte("x"), piece)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-hurry:
			case <-time.After(200 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(images.Close)

	s := newAPIServer(t)
	p := newPod(t, guestWaits, nil).in(t, s)
	p.write(t, "username", []byte("ann\n"))
	p.write(t, "password", []byte("wrong\n"))
	content := live("content", map[string]any{"disk9": map[string]any{
		"name": "system-disk", "path": filepath.Join(p.dir, "system.img"), "url": images.URL + "/disk.raw?signature=s3cret", "scratch": p.dir,
		"credentials": map[string]any{"secret": "images", "directory": p.dir},
	}})
	p.configure(t, func(config map[string]any) {
		content(config)
		config["live"].(map[string]any)["disks"] = map[string]any{"disk9": map[string]any{"size": size}}
	})
	r := p.start(t, "--log-level", "debug")
	s.gets(t, http.MethodPatch, `"reason":"ImportFailed"`)
	s.gets(t, http.MethodPatch, `"state":"Failed","source":"`+images.URL+`/disk.raw"`)
	s.gets(t, http.MethodPost, `"reason":"ImportFailed"`)

	// The Secret is corrected, as kubelet does with its files.
	p.write(t, "password", []byte("hunter2\n"))
	s.gets(t, http.MethodPatch, `"totalBytes":8388608,"bytesPerSecond":`)
	if s.has(http.MethodPatch, `"reason":"VmStarted"`) {
		t.Error("the VM was started with a part of its disk")
	}
	finish()
	s.gets(t, http.MethodPatch, `"contents":[{"disk":"system-disk","result":"Filled","pod":"p-1"}]`)
	s.gets(t, http.MethodPatch, `"reason":"VmStarted"`)
	s.gets(t, http.MethodPost, `"reason":"DiskFilled"`)
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 0)
	for _, secret := range []string{"hunter2", "wrong", "s3cret"} {
		if strings.Contains(r.out.String(), secret) || s.has(http.MethodPatch, secret) || s.has(http.MethodPost, secret) {
			t.Errorf("%s was told", secret)
		}
	}
}
