package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs"
	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

func TestDiskIsReproducible(t *testing.T) {
	files := []file{{"/EFI/BOOT/BOOTX64.EFI", bytes.Repeat([]byte("loader"), 10_000)}, {"/initrd", []byte("initrd")}}
	var images [2][]byte
	for i := range images {
		name := filepath.Join(t.TempDir(), "disk.raw")
		if err := writeDisk(name, files, func(string, string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		var err error
		if images[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if got := readBack(t, name, f.path); !bytes.Equal(got, f.content) {
				t.Errorf("%s: read back %d bytes that are not the %d written", f.path, len(got), len(f.content))
			}
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two disks with equal files differ")
	}
}

func readBack(t *testing.T, image, name string) []byte {
	t.Helper()
	d, err := diskfs.Open(image, diskfs.WithOpenMode(diskfs.ReadOnly))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	esp, err := d.GetFilesystem(1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := esp.OpenFile(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := content.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func TestPackageFile(t *testing.T) {
	cases := map[string]struct {
		version string
		want    string
	}{
		"Plain":          {version: "1.2-3", want: "tool_1.2-3_amd64.deb"},
		"WithEpoch":      {version: "1:1.2-3", want: "tool_1%3a1.2-3_amd64.deb"},
		"AnotherVersion": {version: "1.2-4", want: ""},
		"OnlyAPrefix":    {version: "1.2", want: ""},
	}
	dir := t.TempDir()
	for _, name := range []string{"tool_1.2-3_amd64.deb", "tool_1%3a1.2-3_amd64.deb"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := pkg{"tool", c.version}.deb(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got != "" {
				got = filepath.Base(got)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("file of version %s (-want +got):\n%s", c.version, diff)
			}
		})
	}
}

func TestUncompress(t *testing.T) {
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("module")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"a.ko": []byte("module"), "a.ko.xz": packed.Bytes()} {
		got, err := uncompress(name, content)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if string(got) != "module" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
