package content_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// A disk in an image is found by its path, and no link leads out of the image.
func TestLocate(t *testing.T) {
	image := t.TempDir()
	disk := filepath.Join(image, "disk", "a.raw")
	if err := os.Mkdir(filepath.Dir(disk), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(image, "out")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		source content.Source
		want   string
		reason content.Reason
	}{
		"OnlyDisk": {source: content.Source{Path: image}, want: disk},
		"Member":   {source: content.Source{Path: image, Member: "disk/a.raw"}, want: disk},
		"File":     {source: content.Source{Path: disk}, want: disk},
		"Link":     {source: content.Source{Path: image, Member: "out"}, reason: content.InvalidSource},
		"Outside":  {source: content.Source{Path: filepath.Dir(disk), Member: "../out"}, reason: content.InvalidSource},
		"Nothing":  {source: content.Source{Path: image, Member: "disk/b.raw"}, reason: content.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.source.Locate()
			var fault *content.Error
			if errors.As(err, &fault) {
				err = nil
			} else {
				fault = &content.Error{}
			}
			if err != nil || got != tc.want || fault.Reason != tc.reason {
				t.Errorf("Locate() = %q, %v (%s), want %q (%s)", got, err, fault.Reason, tc.want, tc.reason)
			}
		})
	}
}
