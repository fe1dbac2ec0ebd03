package content_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// A file with a byte that is not zero, wherever that is, is left alone.
func TestFillKeepsContent(t *testing.T) {
	for name, at := range map[string]int64{"First": 0, "InTheMiddle": 33*mib + 17, "Last": 64*mib - 1} {
		t.Run(name, func(t *testing.T) {
			disk := make([]byte, 64*mib)
			disk[at] = 1
			path := writeFile(t, disk)
			if err := os.WriteFile(content.Leftover(path), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, diskBytes(mib))}, content.Target{Path: path, Size: 64 * mib}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content.Result{Outcome: content.Kept}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			wantDisk(t, path, disk, 64*mib)
			if _, err := os.Stat(content.Leftover(path)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what an earlier import has left is still there: %v", err)
			}
		})
	}
}

// A file without content is filled, and does not become smaller.
func TestFillEmptyFile(t *testing.T) {
	data := diskBytes(2 * mib)
	for name, size := range map[string]int64{"NoBytes": 0, "Smaller": mib, "Larger": 16 * mib} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, data)}, content.Target{Path: path, Size: 8 * mib}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Outcome != content.Filled {
				t.Errorf("got outcome %s", got.Outcome)
			}
			wantDisk(t, path, data, max(8*mib, size))
		})
	}
}

// A disk that its owner does not get is none.
func TestFillOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	owner := errors.New("not this one")
	target := content.Target{Path: path, Own: func(name string) error {
		if name != content.Leftover(path) {
			t.Errorf("asked to own %s", name)
		}
		return owner
	}}
	_, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, diskBytes(mib))}, target, nil)
	if !errors.Is(err, owner) {
		t.Errorf("got %v, want the error of Own", err)
	}
	wantReason(t, err, content.Failed)
	wantNothing(t, path)
}
