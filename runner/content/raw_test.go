package content_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/content"
)

const mib = 1 << 20

// diskBytes returns the bytes of a disk of a size: a boot sector, and content and long and short holes thereafter.
func diskBytes(size int) []byte {
	noise := rand.NewChaCha8([32]byte{byte(size)})
	random := rand.New(noise)
	disk := make([]byte, size)
	for at := 0; at < size; {
		n := min(1+random.IntN(mib), size-at)
		if random.IntN(2) == 0 {
			_, _ = noise.Read(disk[at : at+n])
		}
		at += n
	}
	if size >= 512 {
		copy(disk, "boot sector")
		copy(disk[510:], "\x55\xaa")
	}
	return disk
}

func sha256Of(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve serves data, with ranges.
func serve(t *testing.T, data []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// wantDisk checks that the disk has the content, and nothing but zeros behind it up to its size.
func wantDisk(t *testing.T, path string, want []byte, size int64) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(got)) != size {
		t.Errorf("the disk has %d bytes, want %d", len(got), size)
	}
	if len(got) < len(want) {
		t.Fatalf("the disk has %d bytes, the content %d", len(got), len(want))
	}
	if !bytes.Equal(got[:len(want)], want) {
		first := 0
		for got[first] == want[first] {
			first++
		}
		t.Fatalf("byte %d of the disk is %#x, want %#x", first, got[first], want[first])
	}
	if rest := bytes.TrimLeft(got[len(want):], "\x00"); len(rest) > 0 {
		t.Errorf("behind the content there is %q ...", rest[:min(len(rest), 20)])
	}
}

// wantNothing checks that a disk that could not be filled is not there, nor anything else in its directory.
func wantNothing(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("there is %s", e.Name())
	}
}

// wantReason checks why filling failed.
func wantReason(t *testing.T, err error, want content.Reason) {
	t.Helper()
	var e *content.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want one with a reason", err)
	}
	t.Log(e)
	if e.Reason != want {
		t.Errorf("got reason %s (%v), want %s", e.Reason, err, want)
	}
	if bytes.ContainsAny([]byte(e.Error()), "\n\r") {
		t.Errorf("the error has more than one line: %q", e)
	}
}

func TestFillRaw(t *testing.T) {
	small := diskBytes(3*mib + 512)
	tests := map[string]struct {
		data     []byte
		size     int64
		checksum bool
		want     int64
	}{
		"Grows":          {data: small, size: 8 * mib, want: 8 * mib},
		"Exact":          {data: small, size: int64(len(small)), want: int64(len(small))},
		"SizeOfContent":  {data: small, want: int64(len(small))},
		"WithChecksum":   {data: small, size: 8 * mib, checksum: true, want: 8 * mib},
		"WholeSectors":   {data: small[:100_001], want: 100_352},
		"OneByte":        {data: []byte("x"), want: 512},
		"ZerosAtTheEnd":  {data: append(diskBytes(mib), make([]byte, mib)...), want: 2 * mib},
		"LargerThanEdge": {data: diskBytes(40 * mib), size: 64 * mib, checksum: true, want: 64 * mib},
	}
	for name, tc := range tests {
		for _, kind := range []string{"File", "URL"} {
			t.Run(name+kind, func(t *testing.T) {
				var s content.Source
				if kind == "File" {
					s.Path = writeFile(t, tc.data)
				} else {
					s.URL = serve(t, tc.data)
				}
				if tc.checksum {
					s.Checksum = sha256Of(tc.data)
				}
				target := content.Target{Path: filepath.Join(t.TempDir(), "disk.img"), Size: tc.size}
				got, err := content.Fill(t.Context(), s, target, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := content.Result{Outcome: content.Filled, Read: int64(len(tc.data)), Size: int64(len(tc.data))}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				wantDisk(t, target.Path, tc.data, tc.want)
				if _, err := os.Stat(content.Leftover(target.Path)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the file of before is still there: %v", err)
				}
			})
		}
	}
}
