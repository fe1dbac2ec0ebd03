package nocloud_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/diskfs/go-diskfs"
	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/nocloud"
)

// contents reads the label and all files of a disk image.
func contents(t *testing.T, path string) (string, map[string][]byte) {
	t.Helper()
	disk, err := diskfs.Open(path, diskfs.WithOpenMode(diskfs.ReadOnly))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	fs, err := disk.GetFilesystem(0)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		data, err := fs.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = data
	}
	return fs.Label(), files
}

func TestWrite(t *testing.T) {
	meta := []byte("instance-id: v1\nlocal-hostname: test\n")
	config := func(size int) []byte {
		return append(bytes.Repeat([]byte("# 0123456789abc\n"), size/16), "#end"...)
	}
	cases := map[string]struct {
		reason string
		files  map[string][]byte
	}{
		"AllFiles": {
			reason: "Long file names and contents come out as they went in.",
			files: map[string][]byte{
				"meta-data": meta, "user-data": []byte("#cloud-config\n"), "network-config": []byte("version: 2\n"),
			},
		},
		"FloppySized": {
			reason: "A file that fills most of the smallest disk fits.",
			files:  map[string][]byte{"meta-data": meta, "user-data": config(1200 << 10)},
		},
		"FewMegabytes": {
			reason: "The disk grows with its contents.",
			files:  map[string][]byte{"meta-data": meta, "user-data": config(5 << 20)},
		},
		"AtTheEndOfFAT12": {
			reason: "The largest FAT12 disk has room for what it is made for.",
			files:  map[string][]byte{"meta-data": meta, "user-data": config(14<<20 + 700<<10)},
		},
		"FAT16": {
			reason: "Beyond, the disk is FAT16.",
			files:  map[string][]byte{"meta-data": meta, "user-data": config(20 << 20)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cidata.img")
			if err := nocloud.Write(path, tc.files); err != nil {
				t.Fatalf("%s\nWrite: %v", tc.reason, err)
			}
			label, files := contents(t, path)
			if label != nocloud.Label {
				t.Errorf("label is %q, want %q", label, nocloud.Label)
			}
			names := slices.Sorted(maps.Keys(files))
			if diff := cmp.Diff(slices.Sorted(maps.Keys(tc.files)), names); diff != "" {
				t.Fatalf("%s\nfiles (-want +got):\n%s", tc.reason, diff)
			}
			for name, want := range tc.files {
				if !bytes.Equal(want, files[name]) {
					t.Errorf("%s\n%s has %d other bytes, want %d", tc.reason, name, len(files[name]), len(want))
				}
			}
		})
	}
}

// Each size of a disk is one that the file system can be made for.
func TestWriteAllSizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cidata.img")
	for _, mib := range []int{0, 1, 2, 3, 4, 6, 7, 8, 13, 14, 15, 16, 31, 32} {
		data := make([]byte, mib<<20+100)
		if err := nocloud.Write(path, map[string][]byte{"meta-data": nil, "user-data": data}); err != nil {
			t.Errorf("%d MiB: %v", mib, err)
		}
	}
}

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cidata.img")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := nocloud.Write(path, map[string][]byte{"meta-data": []byte("instance-id: v2\n")}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode().Perm())
	}
	_, files := contents(t, path)
	if _, ok := files["user-data"]; !ok {
		t.Error("disk has no user-data, without which cloud-init does not take it")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("directory has %d files, want the image only", len(entries))
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cidata.img")
	if err := nocloud.Write(path, map[string][]byte{"user-data": nil}); err == nil {
		t.Error("a disk without meta-data was made")
	}
	if err := nocloud.Write(path, map[string][]byte{"meta-data": nil, "../x": nil}); err == nil {
		t.Error("a file outside of the root was made")
	}
	huge := map[string][]byte{"meta-data": nil, "user-data": make([]byte, 300<<20)}
	if err := nocloud.Write(path, huge); !errors.Is(err, nocloud.ErrTooLarge) {
		t.Errorf("error is %v, want ErrTooLarge", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused disk is there: %v", err)
	}
}
