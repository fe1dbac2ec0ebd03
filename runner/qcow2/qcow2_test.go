package qcow2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/qcow2"
)

// create makes an image with some content.
func create(t testing.TB, options string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	raw, path := filepath.Join(dir, "raw"), filepath.Join(dir, "image")
	if err := os.WriteFile(raw, bytes.Repeat([]byte("content "), 1<<18), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"convert", "-f", "raw", "-O", "qcow2", "-o", options}, args...)
	qemuImg(t, append(args, raw, path)...)
	return read(t, path)
}

func qemuImg(t testing.TB, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs qemu-img")
	}
	if err != nil {
		t.Fatalf("qemu-img %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// check does all that there is to check of an image.
func check(t testing.TB, image []byte) (*qcow2.Header, error) {
	h, err := qcow2.Parse(image[:min(len(image), qcow2.HeadSize)])
	if err != nil {
		return nil, err
	}
	return h, h.CheckComplete(t.Context(), bytes.NewReader(image), int64(len(image)))
}

// What QEMU makes is taken.
func TestParse(t *testing.T) {
	for name, options := range map[string]string{
		"Default":          "compat=1.1",
		"Version2":         "compat=0.10",
		"SmallestClusters": "cluster_size=512",
		"LargestClusters":  "cluster_size=2M",
		"LazyRefcounts":    "lazy_refcounts=on",
		"Zstd":             "compression_type=zstd",
		"Subclusters":      "extended_l2=on",
		"WideRefcounts":    "refcount_bits=64",
		"NarrowRefcounts":  "refcount_bits=1",
		"Preallocated":     "preallocation=full",
	} {
		t.Run(name, func(t *testing.T) {
			h, err := check(t, create(t, options))
			if err != nil {
				t.Fatal(err)
			}
			if h.VirtualSize != 2<<20 {
				t.Errorf("got a disk of %d bytes, want 2 MiB", h.VirtualSize)
			}
		})
	}
}

// patch returns an image with a number of a width in bytes at an offset.
func patch(image []byte, at, width int, number uint64) []byte {
	image = bytes.Clone(image)
	whole := binary.BigEndian.AppendUint64(nil, number)
	copy(image[at:], whole[8-width:])
	return image
}

func TestParseRefuses(t *testing.T) {
	image := create(t, "compat=1.1")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	qemuImg(t, "create", "-q", "-f", "qcow2", path("base"), "1M")
	qemuImg(t, "create", "-q", "-f", "qcow2", "-b", path("base"), "-F", "qcow2", path("overlay"))
	qemuImg(t, "create", "-q", "-f", "qcow2", "-o", "compat=0.10", "-b", path("base"), "-F", "qcow2", path("overlay2"))
	qemuImg(t, "create", "-q", "-f", "qcow2", "-o", "data_file="+path("data"), path("external"), "1M")
	// As an overlay whose backing file's name has been removed, but not its format.
	format := patch(patch(read(t, path("overlay")), 8, 8, 0), 16, 4, 0)
	// The feature of an external data file is off, its name is there.
	named := patch(read(t, path("external")), 72, 8, 0)
	for name, tc := range map[string]struct {
		image []byte
		want  error
	}{
		"Nothing":             {nil, qcow2.ErrUnsupported},
		"Raw":                 {make([]byte, 512), qcow2.ErrUnsupported},
		"Version1":            {patch(image, 4, 4, 1), qcow2.ErrUnsupported},
		"Version4":            {patch(image, 4, 4, 4), qcow2.ErrUnsupported},
		"BackingFile":         {read(t, path("overlay")), qcow2.ErrBackingFile},
		"BackingFileVersion2": {read(t, path("overlay2")), qcow2.ErrBackingFile},
		"BackingFileNoName":   {patch(image, 8, 8, 512), qcow2.ErrBackingFile},
		"BackingFormat":       {format, qcow2.ErrBackingFile},
		"ExternalData":        {read(t, path("external")), qcow2.ErrBackingFile},
		"ExternalDataName":    {named, qcow2.ErrBackingFile},
		"Encrypted":           {patch(image, 32, 4, 2), qcow2.ErrUnsupported},
		"UnknownFeature":      {patch(image, 72, 8, 1<<5), qcow2.ErrUnsupported},
		"LastFeature":         {patch(image, 72, 8, 1<<63), qcow2.ErrUnsupported},
		"MarkedCorrupt":       {patch(image, 72, 8, 2), qcow2.ErrCorrupt},
		"Compression":         {patch(image, 104, 1, 2), qcow2.ErrUnsupported},
		"CompressionFeature":  {patch(image, 104, 1, 1), qcow2.ErrCorrupt},
		"ClustersTooSmall":    {patch(image, 20, 4, 8), qcow2.ErrCorrupt},
		"ClustersTooLarge":    {patch(image, 20, 4, 22), qcow2.ErrCorrupt},
		"ClustersOverflow":    {patch(image, 20, 4, 1<<31), qcow2.ErrCorrupt},
		"DiskTooLarge":        {patch(image, 24, 8, 1<<40), qcow2.ErrCorrupt},
		"DiskNegative":        {patch(image, 24, 8, 1<<63), qcow2.ErrCorrupt},
		"L1TooLarge":          {patch(image, 36, 4, 1<<31), qcow2.ErrCorrupt},
		"L1Nowhere":           {patch(image, 40, 8, 0), qcow2.ErrCorrupt},
		"L1Beyond":            {patch(image, 40, 8, 1<<40), qcow2.ErrCorrupt},
		"L1Overflow":          {patch(image, 40, 8, 1<<64-1<<16), qcow2.ErrCorrupt},
		"RefcountsBeyond":     {patch(image, 48, 8, 1<<40), qcow2.ErrCorrupt},
		"RefcountsWide":       {patch(image, 96, 4, 7), qcow2.ErrCorrupt},
		"HeaderTooShort":      {patch(image, 100, 4, 96), qcow2.ErrCorrupt},
		"HeaderTooLong":       {patch(image, 100, 4, 1<<31), qcow2.ErrCorrupt},
		"EndlessExtensions":   {patch(patch(image, 112, 4, 1), 116, 4, 1<<20), qcow2.ErrCorrupt},
		"CutOffInHeader":      {image[:100], qcow2.ErrCorrupt},
		"CutOffInHeader2":     {image[:71], qcow2.ErrCorrupt},
		"CutOffInTables":      {image[:128<<10], qcow2.ErrCorrupt},
		"CutOffInData":        {image[:len(image)-128<<10], qcow2.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(t, tc.image)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got error %v, want %v", err, tc.want)
			}
			t.Log(err)
		})
	}
}

func TestCheckCompleteCompressed(t *testing.T) {
	image := create(t, "compat=1.1", "-c")
	if _, err := check(t, image); err != nil {
		t.Fatal(err)
	}
	if _, err := check(t, image[:len(image)-8<<10]); !errors.Is(err, qcow2.ErrCorrupt) {
		t.Errorf("got error %v for an image that is cut off, want %v", err, qcow2.ErrCorrupt)
	}
}

// Whatever comes, nothing panics, no more memory is taken than an image may have, and what refers to another file is not taken.
func FuzzParse(f *testing.F) {
	for _, options := range []string{"compat=1.1", "compat=0.10", "extended_l2=on", "compression_type=zstd"} {
		f.Add(create(f, options)[:8<<10])
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		h, err := check(t, image)
		if h == nil {
			if err == nil {
				t.Error("no header and no error")
			}
			return
		}
		be := binary.BigEndian
		if be.Uint64(image[8:]) != 0 {
			t.Error("an image with a backing file was taken")
		}
		if h.Version == 3 && be.Uint64(image[72:])&^0x1b != 0 {
			t.Errorf("an image with the incompatible features %#x was taken", be.Uint64(image[72:]))
		}
		if h.VirtualSize < 0 {
			t.Errorf("a disk of %d bytes", h.VirtualSize)
		}
	})
}
