package content_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// tmpfs mounts a file system of a size.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// A volume that is full says so, and is not left full.
func TestFillFullVolume(t *testing.T) {
	disk := diskBytes(16 * mib)
	image := qcow2Image(t, disk)
	for name, s := range map[string]content.Source{
		"Raw":            {Path: writeFile(t, disk)},
		"URL":            {URL: serve(t, disk)},
		"Qcow2":          {Path: writeFile(t, image)},
		"Qcow2ToScratch": {URL: serve(t, image)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(tmpfs(t, "4m"), "disk.img")
			_, err := content.Fill(t.Context(), s, content.Target{Path: path, Size: 64 * mib}, nil)
			wantReason(t, err, content.NoSpace)
			wantNothing(t, path)
		})
	}
}

// Who ends it gets back what there was, and the error of the context.
func TestFillCanceled(t *testing.T) {
	stopped := errors.New("the VM is to stop")
	data := diskBytes(8 * mib)
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8388608")
		send(w, data[:4*mib])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	path := filepath.Join(t.TempDir(), "disk.img")
	_, err := content.Fill(ctx, content.Source{URL: server.URL}, content.Target{Path: path}, func(content.Progress) { cancel(stopped) })
	if !errors.Is(err, stopped) {
		t.Errorf("got error %v, want that of the context", err)
	}
	wantNothing(t, path)
}

// The last report of fetching has counted everything, and what comes thereafter has its own phase.
func TestFillProgress(t *testing.T) {
	disk := make([]byte, 64*mib)
	copy(disk, diskBytes(4*mib))
	for name, s := range map[string]content.Source{"Raw": {Path: writeFile(t, disk)}, "Stream": {URL: serve(t, disk)}, "Qcow2": {Path: writeFile(t, qcow2Image(t, disk))}} {
		t.Run(name, func(t *testing.T) {
			var phases []content.Phase
			report := func(p content.Progress) {
				if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
					phases = append(phases, p.Phase)
				}
				if p.Bytes > p.Total && p.Total > 0 || p.Percent() > 100 {
					t.Errorf("%d of %d bytes, %d%%", p.Bytes, p.Total, p.Percent())
				}
			}
			if _, err := content.Fill(t.Context(), s, content.Target{Path: filepath.Join(t.TempDir(), "disk.img")}, report); err != nil {
				t.Fatal(err)
			}
			t.Log(phases)
			if len(phases) < 2 || phases[0] != content.Fetching || phases[len(phases)-1] != content.Syncing {
				t.Errorf("got the phases %v", phases)
			}
			if name == "Qcow2" && phases[1] != content.Converting {
				t.Errorf("got the phases %v, want one of converting", phases)
			}
		})
	}
}

// Of two that fill a disk one does, and the other finds it filled.
func TestFillTwice(t *testing.T) {
	data := diskBytes(4 * mib)
	path := filepath.Join(t.TempDir(), "disk.img")
	begun, both := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := handle(t, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(begun) })
		select {
		case <-both:
		case <-r.Context().Done():
		}
		send(w, data)
	})
	type outcome struct {
		content.Result
		err error
	}
	fill := func() <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			result, err := content.Fill(t.Context(), content.Source{URL: server.URL}, content.Target{Path: path}, nil)
			done <- outcome{result, err}
		}()
		return done
	}
	first := fill()
	<-begun
	second := fill()
	// It has to wait for the first one's lock, for less than it takes to give up.
	time.AfterFunc(200*time.Millisecond, func() { close(both) })
	for name, want := range map[string]content.Outcome{"first": content.Filled, "second": content.Kept} {
		done := map[string]<-chan outcome{"first": first, "second": second}[name]
		if got := <-done; got.err != nil || got.Outcome != want {
			t.Errorf("the %s: got %v, %v, want %s", name, got.Result, got.err, want)
		}
	}
	wantDisk(t, path, data, int64(len(data)))
}
