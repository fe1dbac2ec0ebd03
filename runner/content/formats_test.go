package content_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// tool runs a program that makes what is filled from.
func tool(t *testing.T, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said.String())
	}
	return out.Bytes()
}

// qcow2Image makes an image of a disk.
func qcow2Image(t *testing.T, disk []byte, options ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.qcow2")
	tool(t, nil, "qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), writeFile(t, disk), path)...)
	return readFile(t, path)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compressions are the ways to compress, as the usual programs do.
var compressions = map[string][]string{
	"Plain": nil,
	"Gzip":  {"gzip", "-1"},
	"Xz":    {"xz", "-0"},
	"Zstd":  {"zstd", "-1"},
}

func compressed(t *testing.T, data []byte, with []string) []byte {
	t.Helper()
	if with == nil {
		return data
	}
	return tool(t, data, with[0], append(with[1:], "-c")...)
}

// Each format of an image, and each way to compress it, comes to the same disk; of a file and of a URL, into a file and into a device.
func TestFillFormats(t *testing.T) {
	disk := diskBytes(9*mib + 512)
	formats := map[string][]byte{
		"Raw":                disk,
		"Qcow2V3":            qcow2Image(t, disk),
		"Qcow2V2":            qcow2Image(t, disk, "-o", "compat=0.10"),
		"Qcow2Compressed":    qcow2Image(t, disk, "-c"),
		"Qcow2Zstd":          qcow2Image(t, disk, "-c", "-o", "compression_type=zstd"),
		"Qcow2Subclusters":   qcow2Image(t, disk, "-o", "extended_l2=on,cluster_size=128k"),
		"Qcow2SmallClusters": qcow2Image(t, disk, "-o", "cluster_size=512"),
	}
	for format, image := range formats {
		for compression, with := range compressions {
			// How an image is made, and how it is compressed, have nothing to do with each other.
			if with != nil && format != "Raw" && format != "Qcow2V3" {
				continue
			}
			data := compressed(t, image, with)
			t.Run(format+compression, func(t *testing.T) {
				for kind, s := range map[string]content.Source{"File": {Path: writeFile(t, data)}, "URL": {URL: serve(t, data), Checksum: sha256Of(data)}} {
					t.Run(kind, func(t *testing.T) {
						for where, target := range map[string]content.Target{"File": {Path: filepath.Join(t.TempDir(), "disk.img"), Size: 16 * mib}, "Device": {Path: loopDevice(t, 16*mib)}} {
							got, err := content.Fill(t.Context(), s, target, nil)
							if err != nil {
								t.Fatalf("%s: %v", where, err)
							}
							want := content.Result{Outcome: content.Filled, Read: int64(len(data)), Size: int64(len(disk))}
							if diff := cmp.Diff(want, got); diff != "" {
								t.Errorf("%s: result (-want +got):\n%s", where, diff)
							}
							wantDisk(t, target.Path, disk, 16*mib)
						}
					})
				}
			})
		}
	}
}

// A disk that could be filled is as sparse as its content.
func TestFillSparse(t *testing.T) {
	disk := make([]byte, 64*mib)
	copy(disk, diskBytes(2*mib))
	for name, image := range map[string][]byte{"Raw": disk, "Gzip": compressed(t, disk, compressions["Gzip"]), "Qcow2": qcow2Image(t, disk)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			if _, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, image)}, content.Target{Path: path, Size: 1 << 30}, nil); err != nil {
				t.Fatal(err)
			}
			if got := allocated(t, path); got > 3*mib {
				t.Errorf("the disk takes %d bytes of its volume, want at most 3 MiB", got)
			}
		})
	}
}

// damaged returns data with other bytes at an offset.
func damaged(data []byte, at int, with string) []byte {
	data = bytes.Clone(data)
	copy(data[at:], with)
	return data
}

// What does not become a disk leaves none.
func TestFillRefuses(t *testing.T) {
	disk := diskBytes(4 * mib)
	image := qcow2Image(t, disk)
	base := writeFile(t, disk)
	overlay := filepath.Join(t.TempDir(), "overlay.qcow2")
	tool(t, nil, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", overlay)
	vmdk := filepath.Join(t.TempDir(), "disk.vmdk")
	tool(t, nil, "qemu-img", "convert", "-f", "raw", "-O", "vmdk", base, vmdk)
	vdi := filepath.Join(t.TempDir(), "disk.vdi")
	tool(t, nil, "qemu-img", "convert", "-f", "raw", "-O", "vdi", base, vdi)
	external := filepath.Join(t.TempDir(), "external.qcow2")
	tool(t, nil, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file="+writeFile(t, disk)+".data", external, "4M")
	bomb := compressed(t, make([]byte, 256*mib), []string{"gzip", "-9"})
	gz, xz, zstd := compressed(t, disk, compressions["Gzip"]), compressed(t, disk, compressions["Xz"]), compressed(t, disk, compressions["Zstd"])
	tests := map[string]struct {
		data     []byte
		checksum string
		want     content.Reason
	}{
		"Empty":               {data: nil, want: content.Truncated},
		"RawTooLarge":         {data: diskBytes(16*mib + 1), want: content.TooLarge},
		"ZipBomb":             {data: bomb, want: content.TooLarge},
		"XzBomb":              {data: compressed(t, make([]byte, 64*mib), compressions["Xz"]), want: content.TooLarge},
		"ZstdBomb":            {data: compressed(t, make([]byte, 64*mib), compressions["Zstd"]), want: content.TooLarge},
		"Qcow2TooLarge":       {data: qcow2Image(t, make([]byte, 16*mib+512)), want: content.TooLarge},
		"Qcow2LongerThanDisk": {data: append(bytes.Clone(image), make([]byte, 40*mib)...), want: content.TooLarge},
		"BackingFile":         {data: readFile(t, overlay), want: content.BackingFile},
		"BackingFileInXz":     {data: compressed(t, readFile(t, overlay), compressions["Xz"]), want: content.BackingFile},
		"ExternalData":        {data: readFile(t, external), want: content.BackingFile},
		"Qcow2CutOff":         {data: image[:len(image)/2], want: content.Corrupt},
		"Qcow2HeaderCutOff":   {data: image[:90], want: content.Corrupt},
		"Qcow1":               {data: damaged(image, 4, "\x00\x00\x00\x01"), want: content.UnsupportedFormat},
		"VMDK":                {data: readFile(t, vmdk), want: content.UnsupportedFormat},
		"VDI":                 {data: readFile(t, vdi), want: content.UnsupportedFormat},
		"Zip":                 {data: []byte("PK\x03\x04..."), want: content.UnsupportedFormat},
		"Unfinished":          {data: damaged(disk, 0, "CUVEE IMPORT, UNFINISHED\n"), want: content.Corrupt},
		"WebPage":             {data: []byte("\n<!DOCTYPE html><title>Please log in</title>"), want: content.UnsupportedFormat},
		"CompressedTwice":     {data: compressed(t, gz, compressions["Xz"]), want: content.UnsupportedFormat},
		"LargeWindowZstd":     {data: compressed(t, disk, []string{"zstd", "--ultra", "--long=28", "-1"}), want: content.UnsupportedFormat},
		"LargeWindowXz":       {data: compressed(t, disk, []string{"xz", "--lzma2=preset=0,dict=65MiB"}), want: content.UnsupportedFormat},
		"GzipCutOff":          {data: gz[:len(gz)-9], want: content.Truncated},
		"XzCutOff":            {data: xz[:len(xz)-9], want: content.Truncated},
		"ZstdCutOff":          {data: zstd[:len(zstd)-9], want: content.Truncated},
		"GzipDamaged":         {data: damaged(gz, len(gz)-6, "\xff\x00"), want: content.Corrupt},
		"XzDamaged":           {data: damaged(xz, len(xz)/2, "\xff\x00\xff\x00"), want: content.Corrupt},
		"ZstdDamaged":         {data: damaged(zstd, len(zstd)-3, "\xff\x00\xff"), want: content.Corrupt},
		"GzipAndMore":         {data: append(bytes.Clone(gz), "more, which is not compressed"...), want: content.Corrupt},
		"WrongChecksum":       {data: disk, checksum: sha256Of(gz), want: content.ChecksumMismatch},
		"WrongChecksumGzip":   {data: gz, checksum: sha256Of(disk), want: content.ChecksumMismatch},
		"WrongChecksumQcow2":  {data: image, checksum: sha256Of(disk), want: content.ChecksumMismatch},
	}
	for name, tc := range tests {
		for kind, s := range map[string]content.Source{"File": {Path: writeFile(t, tc.data)}, "URL": {URL: serve(t, tc.data)}} {
			t.Run(name+kind, func(t *testing.T) {
				s.Checksum = tc.checksum
				if name == "Qcow2LongerThanDisk" && kind == "File" {
					t.Skip("a file need not be copied")
				}
				path := filepath.Join(t.TempDir(), "disk.img")
				_, err := content.Fill(t.Context(), s, content.Target{Path: path, Size: 16 * mib}, nil)
				wantReason(t, err, tc.want)
				wantNothing(t, path)
			})
		}
	}
}
