package content

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// maxWindow is how far back a decoder may look, and with it how much memory it takes: that of "xz -9".
const maxWindow = 64 << 20

// decoder undoes one way to compress.
type decoder struct {
	name, magic string
	open        func(io.Reader) (io.Reader, error)
}

// decoders are told by their magic numbers; names of files tell nothing.
var decoders = []decoder{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) { return xz.NewReader(r, maxWindow) }},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		// One goroutine, which ends with the last read, and so nothing to close.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	}},
}

// findDecoder returns how to decompress what begins like that, nil if it is not compressed.
func findDecoder(head []byte) *decoder {
	for i, d := range decoders {
		if bytes.HasPrefix(head, []byte(d.magic)) {
			return &decoders[i]
		}
	}
	return nil
}

// reader returns what is compressed in a stream. Errors of the stream itself stay what they are.
func (d *decoder) reader(r io.Reader) (io.Reader, error) {
	plain := &decoding{name: d.name, from: source{Reader: r}}
	var err error
	plain.r, err = d.open(&plain.from)
	if err != nil {
		return nil, plain.explain(err)
	}
	return plain, nil
}

// decoding is a stream that is being decompressed.
type decoding struct {
	name string
	from source
	r    io.Reader
}

// source is a reader that remembers what went wrong in it.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (d *decoding) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, d.explain(err)
}

func (d *decoding) explain(err error) error {
	switch {
	case d.from.err != nil:
		return d.from.err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, xz.ErrBuf):
		return errorf(Truncated, "the %s stream ends too early", d.name)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, xz.ErrMemlimit):
		return errorf(UnsupportedFormat, "the %s stream needs a window of more than %d MiB; compress it with a smaller one", d.name, maxWindow>>20)
	}
	return errorf(Corrupt, "the %s stream is damaged: %w", d.name, err)
}

// foreign are formats that somebody may take for those of disks, by what they have at an offset.
var foreign = []struct {
	at          int
	magic, name string
}{
	{0, "KDMV", "VMDK"},
	{0, "# Disk DescriptorFile", "VMDK"},
	{0, "COWD", "VMDK"},
	{0, "vhdxfile", "VHDX"},
	{0, "conectix", "VHD"},
	{64, "\x7f\x10\xda\xbe", "VDI"},
	{0, "QED\x00", "QED"},
	{0, "WithoutFreeSpace", "Parallels"},
	{0, "WithouFreSpacExt", "Parallels"},
	{0, "PK\x03\x04", "zip"},
	{0, "7z\xbc\xaf\x27\x1c", "7z"},
	{0, "BZh", "bzip2"},
	{0, "\x04\x22\x4d\x18", "lz4"},
	{0, "LZIP", "lzip"},
	{257, "ustar", "tar"},
}

// checkFormat refuses content that certainly is no raw disk.
func checkFormat(head []byte) error {
	if len(head) == 0 {
		return errorf(Truncated, "the source is empty")
	}
	if isHeader(head) {
		return errUnfinished
	}
	if d := findDecoder(head); d != nil {
		return errorf(UnsupportedFormat, "the content is compressed twice, the second time with %s", d.name)
	}
	for _, f := range foreign {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return errorf(UnsupportedFormat, "the content is in the format %s, want raw or qcow2, as it is or compressed with gzip, xz or zstd", f.name)
		}
	}
	text := strings.ToLower(strings.TrimSpace(string(head[:min(len(head), 256)])))
	if strings.HasPrefix(text, "<!doctype") || strings.HasPrefix(text, "<html") || strings.HasPrefix(text, "<?xml") {
		return errorf(UnsupportedFormat, "the content is a web page or another text, and no disk")
	}
	return nil
}

// peek returns the begin of a stream, which may be all of it.
func peek(r *bufio.Reader, n int) ([]byte, error) {
	head, err := r.Peek(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read source: %w", err)
	}
	return head, nil
}
