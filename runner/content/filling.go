package content

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner/qcow2"
)

// bufferSize is how much is read and written at once. It stays in the processor's cache.
const bufferSize = 256 << 10

// filling is one attempt to fill a disk.
type filling struct {
	disk    target
	in      *input
	scratch string
	meter   *meter
}

// run fills the disk, and returns the size of the content.
func (f *filling) run(ctx context.Context, name string) (int64, error) {
	f.meter.begin(Fetching, f.in.length)
	stream := bufio.NewReaderSize(&metered{f.in, ctx, f.meter}, bufferSize)
	head, err := peek(stream, qcow2.HeadSize)
	if err != nil {
		return 0, err
	}
	plain := true
	if d := findDecoder(head); d != nil {
		plain = false
		r, err := d.reader(stream)
		if err != nil {
			return 0, err
		}
		stream = bufio.NewReaderSize(r, bufferSize)
		if head, err = peek(stream, qcow2.HeadSize); err != nil {
			return 0, err
		}
	}
	if qcow2.Is(head) {
		return f.image(ctx, name, stream, head, plain)
	}
	if err := checkFormat(head); err != nil {
		return 0, err
	}
	return f.raw(ctx, name, stream, plain)
}

// raw fills the disk with the bytes of a stream, or of the source's file if that is plain.
func (f *filling) raw(ctx context.Context, name string, stream io.Reader, plain bool) (int64, error) {
	if plain {
		if err := f.checkSize(f.in.length); err != nil {
			return 0, err
		}
	}
	if err := f.disk.begin(name); err != nil {
		return 0, err
	}
	w := &sparseWriter{ctx: ctx, disk: f.disk, limit: f.disk.limit()}
	var err error
	if plain && f.in.file != nil && f.in.sum == nil {
		err = f.copyFile(ctx, w)
	} else {
		err = copyStream(w, stream)
	}
	if err != nil {
		return 0, err
	}
	if err := f.in.verify(); err != nil {
		return 0, err
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.at, f.disk.finish(ctx, w.at, f.meter)
}

// copyFile copies what a file has, and skips its holes.
func (f *filling) copyFile(ctx context.Context, w *sparseWriter) error {
	// The peek has counted.
	f.meter.begin(Fetching, f.in.length)
	for length := f.in.length; w.at < length; {
		start, end, err := nextData(f.in.file, w.at)
		if errors.Is(err, io.EOF) {
			start, end = length, length
		} else if err != nil {
			return err
		}
		// It may grow while we read.
		start, end = min(start, length), min(end, length)
		f.meter.add(start - w.at)
		w.skip(start - w.at)
		part := &metered{io.NewSectionReader(f.in.file, start, end-start), ctx, f.meter}
		if err := copyStream(w, part); err != nil {
			return err
		}
		if w.at < end {
			return errorf(Truncated, "the source has become smaller while it was read")
		}
	}
	return nil
}

// image fills the disk with a qcow2 image: a file as it is, a stream by way of a scratch file.
func (f *filling) image(ctx context.Context, name string, stream io.Reader, head []byte, plain bool) (int64, error) {
	h, err := qcow2.Parse(head)
	if err != nil {
		return 0, fmt.Errorf("qcow2 image: %w", err)
	}
	if h.VirtualSize == 0 {
		return 0, errorf(Truncated, "qcow2 image: a disk of no bytes")
	}
	if err := f.checkSize(wholeSectors(h.VirtualSize)); err != nil {
		return 0, err
	}
	file := f.in.file
	if file == nil || !plain {
		if file, err = f.toScratch(ctx, stream, h); err != nil {
			return 0, err
		}
		defer file.Close()
	}
	if err := f.in.verify(); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("read image: %w", err)
	}
	if err := h.CheckComplete(ctx, file, info.Size()); err != nil {
		return 0, fmt.Errorf("qcow2 image: %w", err)
	}
	if err := f.disk.begin(name); err != nil {
		return 0, err
	}
	f.meter.begin(Converting, h.VirtualSize)
	if err := f.disk.convert(ctx, &qemuImg{image: file, size: h.VirtualSize, meter: f.meter}); err != nil {
		return 0, err
	}
	size := wholeSectors(h.VirtualSize)
	return size, f.disk.finish(ctx, size, f.meter)
}

// checkSize refuses content of a size, if that is known, for which the disk is too small.
func (f *filling) checkSize(size int64) error {
	if limit := f.disk.limit(); limit > 0 && size > limit {
		return errorf(TooLarge, "the content has %d bytes, the disk only %d", size, limit)
	}
	return nil
}

// toScratch writes an image to a file without a name, which is gone when it is closed, or this process is.
func (f *filling) toScratch(ctx context.Context, stream io.Reader, h *qcow2.Header) (*os.File, error) {
	fd, err := unix.Open(f.scratch, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make scratch file in %s: %w", f.scratch, err)
	}
	file := os.NewFile(uintptr(fd), "scratch file")
	// Of a disk that is written in full an image has little more than that. Snapshots in it could need more, but are nothing for us.
	limit := h.VirtualSize + h.VirtualSize/16 + 16<<20
	w := &sparseWriter{ctx: ctx, disk: &scratchFile{f: file}, limit: limit}
	if err = copyStream(w, stream); err == nil {
		err = file.Truncate(w.at)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("write scratch file in %s: %w", f.scratch, err)
	}
	return file, nil
}

// metered is a reader that counts, and ends with its context.
type metered struct {
	io.Reader
	ctx   context.Context
	meter *meter
}

func (m *metered) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.Reader.Read(p)
	m.meter.add(int64(n))
	return n, err
}
