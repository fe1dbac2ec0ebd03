package content_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// image makes the files of an OCI image. A value "-> x" a link to x.
func image(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link, ok := cutLink(data); ok {
			err = os.Symlink(link, path)
		} else {
			err = os.WriteFile(path, []byte(data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func cutLink(data string) (string, bool) {
	const arrow = "-> "
	if len(data) > len(arrow) && data[:len(arrow)] == arrow {
		return data[len(arrow):], true
	}
	return "", false
}

func TestFillFromImage(t *testing.T) {
	disk := string(diskBytes(mib))
	for name, tc := range map[string]struct {
		files  map[string]string
		member string
		want   content.Reason
	}{
		"ContainerDisk":   {files: map[string]string{"disk/fedora.img": disk, "disk/sub/other": "x", "etc/passwd": "x"}},
		"Member":          {files: map[string]string{"disk/a": "x", "images/b.raw": disk}, member: "images/b.raw"},
		"MemberWithSlash": {files: map[string]string{"images/b.raw": disk}, member: "/images/b.raw"},
		"LinkInside":      {files: map[string]string{"disk/a": "-> ../images/b.raw", "images/b.raw": disk}, member: "disk/a"},
		"NoDisk":          {files: map[string]string{"images/b.raw": disk}, want: content.NotFound},
		"NoMember":        {files: map[string]string{"disk/a": disk}, member: "disk/b", want: content.NotFound},
		"TwoDisks":        {files: map[string]string{"disk/a": disk, "disk/b": disk}, want: content.InvalidSource},
		"LinkOutside":     {files: map[string]string{"disk/a": "-> /etc/passwd"}, member: "disk/a", want: content.InvalidSource},
		"LinkUp":          {files: map[string]string{"disk/a": "-> ../../../../../etc/passwd"}, member: "disk/a", want: content.InvalidSource},
		"DirectoryLink":   {files: map[string]string{"disk/a": "-> /etc"}, member: "disk/a/passwd", want: content.InvalidSource},
		"DiskDirIsLink":   {files: map[string]string{"disk": "-> /etc"}, want: content.InvalidSource},
		"MemberIsDir":     {files: map[string]string{"disk/a": disk}, member: "disk", want: content.InvalidSource},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			_, err := content.Fill(t.Context(), content.Source{Path: image(t, tc.files), Member: tc.member}, content.Target{Path: path}, nil)
			if tc.want != "" {
				wantReason(t, err, tc.want)
				wantNothing(t, path)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantDisk(t, path, []byte(disk), mib)
		})
	}
}
