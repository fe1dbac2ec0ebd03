package diskimage_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/cuvee-vm/cuvee/cmd/cuvee/diskimage"
	"github.com/cuvee-vm/cuvee/runner/content"
)

// disk is a disk with a hole.
var disk = append(bytes.Repeat([]byte("disk"), 1<<14), make([]byte, 1<<20)...)

// build makes an archive of an image with the disk.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "debian.raw")
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := filepath.Join(t.TempDir(), "image.tar")
	b := diskimage.Build{Disk: f, Name: "debian.raw", Reference: "example.com/debian:13"}
	if err := b.WriteFile(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the archive there is something else: %v, %v", entries, err)
	}
	return out
}

// unpack unpacks an archive but for some of its files.
func unpack(t *testing.T, archive string, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	for h, data := range entries(t, archive) {
		if slices.Contains(without, h.Name) {
			continue
		}
		to := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// entries are the files of an archive.
func entries(t *testing.T, archive string) func(func(*tar.Header, []byte) bool) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return func(yield func(*tar.Header, []byte) bool) {
		for r := tar.NewReader(f); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(h, data) {
				return
			}
		}
	}
}

// repack makes an archive without some of the files.
func repack(t *testing.T, archive string, without ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "repacked.tar")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for h, data := range entries(t, archive) {
		if slices.Contains(without, h.Name) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The archive is a valid image to those who read one of docker's, and to those who read an OCI layout; it is the same each time.
func TestBuild(t *testing.T) {
	archive := build(t)
	docker, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(docker); err != nil {
		t.Errorf("as an archive of docker: %v", err)
	}
	index, err := layout.ImageIndexFromPath(unpack(t, archive))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("as an OCI layout: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "example.com/debian:13" {
		t.Errorf("got the name %q", got)
	}
	wantLayer(t, docker)
	one, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(build(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two archives of the same disk differ")
	}
}

// wantLayer checks that QEMU's user in KubeVirt can read the disk, and anybody else.
func wantLayer(t *testing.T, image v1.Image) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d:%d %d", h.Name, h.Mode, h.Uid, h.Gid, h.Size))
	}
	want := []string{"disk/ 555 107:107 0", fmt.Sprintf("disk/debian.raw 444 107:107 %d", len(disk))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

// wantDisk checks that there is the disk, and only that.
func wantDisk(t *testing.T, dir, name string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, disk) {
		t.Errorf("the disk %s has other content", name)
	}
}

// serve starts a registry, which has the image, and counts what it is asked for.
func serve(t *testing.T, archive string) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"13", "latest"} {
		ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/debian:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
	requests.Store(0)
	return server, &requests
}

// An image is found wherever it is, and its disk comes to be in the cache.
func TestFetch(t *testing.T) {
	archive := build(t)
	server, _ := serve(t, archive)
	for name, reference := range map[string]string{
		"DockerArchive": repack(t, archive, "oci-layout", "index.json"),
		"OCIArchive":    repack(t, archive, "manifest.json"),
		"Both":          archive,
		"Layout":        unpack(t, archive),
		"Registry":      strings.TrimPrefix(server.URL, "http://") + "/debian:13",
	} {
		for _, member := range []string{"", "disk/debian.raw", "/disk/debian.raw"} {
			t.Run(name+member, func(t *testing.T) {
				cache := diskimage.Cache{Dir: filepath.Join(t.TempDir(), "cache")}
				for range 2 {
					dir, err := cache.Fetch(t.Context(), diskimage.Image{Reference: reference, Member: member})
					if err != nil {
						t.Fatal(err)
					}
					wantDisk(t, dir, "disk/debian.raw")
				}
				wantTidy(t, cache.Dir)
			})
		}
	}
}

// wantTidy checks that there is nothing half in the cache.
func wantTidy(t *testing.T, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", ".*"))
	more, err2 := filepath.Glob(filepath.Join(dir, ".*"))
	if err := errors.Join(err, err2); err != nil || len(found)+len(more) > 0 {
		t.Errorf("the cache has something half: %v %v %v", found, more, err)
	}
}

// What is a disk itself, or a directory with files, is taken as it is.
func TestFetchAsItIs(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(file, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := diskimage.Cache{Dir: filepath.Join(t.TempDir(), "cache")}
	for _, reference := range []string{dir, file} {
		got, err := cache.Fetch(t.Context(), diskimage.Image{Reference: reference})
		if err != nil || got != reference {
			t.Errorf("got %s, %v for %s", got, err, reference)
		}
	}
}

// The registry is asked as the policy says, and not needed for what is here.
func TestFetchPolicy(t *testing.T) {
	server, requests := serve(t, build(t))
	host := strings.TrimPrefix(server.URL, "http://")
	cache := diskimage.Cache{Dir: t.TempDir()}
	fetch := func(reference string, policy diskimage.Policy) error {
		requests.Store(0)
		_, err := cache.Fetch(t.Context(), diskimage.Image{Reference: host + "/" + reference, Policy: policy})
		return err
	}
	steps := []struct {
		reference string
		policy    diskimage.Policy
		asks      bool
		want      error
	}{
		{"debian:13", diskimage.Never, false, diskimage.ErrNotFound},
		{"debian:13", "", true, nil},
		{"debian:13", diskimage.IfNotPresent, false, nil},
		{"debian:13", diskimage.Never, false, nil},
		{"debian:13", diskimage.Always, true, nil},
		{"debian", "", true, nil},
		{"debian", "", true, nil},
	}
	for i, s := range steps {
		if err := fetch(s.reference, s.policy); !errors.Is(err, s.want) {
			t.Errorf("step %d: got error %v, want %v", i, err, s.want)
		}
		if asked := requests.Load() > 0; asked != s.asks {
			t.Errorf("step %d: the registry was asked: %v, want %v", i, asked, s.asks)
		}
	}
	server.Close()
	if err := fetch("debian", ""); err != nil {
		t.Errorf("without the registry: %v", err)
	}
	if err := fetch("debian", diskimage.Always); err == nil {
		t.Error("without the registry there is an image that has to be asked for")
	}
}

func TestFetchFails(t *testing.T) {
	archive := build(t)
	server, _ := serve(t, archive)
	host := strings.TrimPrefix(server.URL, "http://")
	cut := filepath.Join(t.TempDir(), "cut.tar")
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, data[:len(data)-2048], 0o600); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		image diskimage.Image
	}{
		"NoFile":        {t.Context(), diskimage.Image{Reference: "./nothing.tar"}},
		"NoReference":   {t.Context(), diskimage.Image{Reference: "No Reference"}},
		"NotInRegistry": {t.Context(), diskimage.Image{Reference: host + "/nothing:1"}},
		"NoMember":      {t.Context(), diskimage.Image{Reference: archive, Member: "disk/other"}},
		"MemberOutside": {t.Context(), diskimage.Image{Reference: archive, Member: "../../etc/passwd"}},
		"CutOff":        {t.Context(), diskimage.Image{Reference: cut}},
		"Canceled":      {canceled, diskimage.Image{Reference: host + "/debian:13"}},
	} {
		t.Run(name, func(t *testing.T) {
			cache := diskimage.Cache{Dir: t.TempDir()}
			_, err := cache.Fetch(tc.ctx, tc.image)
			if err == nil {
				t.Fatal("it was fetched")
			}
			t.Log(err)
			wantTidy(t, cache.Dir)
		})
	}
}

// What is at an address is fetched once, and never kept with another checksum than its own.
func TestDownload(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = w.Write(disk)
	}))
	defer server.Close()
	cache := diskimage.Cache{Dir: t.TempDir()}
	source := content.Source{URL: server.URL, Checksum: fmt.Sprintf("sha256:%X", sha256.Sum256(disk))}
	for range 2 {
		file, err := cache.Download(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		wantDisk(t, filepath.Dir(file), filepath.Base(file))
	}
	if requests != 1 {
		t.Errorf("the server was asked %d times", requests)
	}
	for name, checksum := range map[string]string{
		"Wrong": fmt.Sprintf("sha256:%x", sha256.Sum256(disk[1:])), "None": "", "NoNumber": "sha256:../../x", "Short": "sha256:12",
	} {
		if file, err := cache.Download(t.Context(), content.Source{URL: server.URL, Checksum: checksum}); err == nil {
			t.Errorf("%s: it was kept as %s", name, file)
		}
	}
	wantTidy(t, cache.Dir)
}
