package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// device is a disk that is a block device.
type device struct {
	f    *os.File
	size int64
	// head is what the device is to have at its begin. It is written last.
	head [headSize]byte
	flow writeback
	// noZeroing is set when the device has no command for zeros.
	noZeroing bool
}

// openDevice returns nil if the device has content.
func openDevice(ctx context.Context, path string) (*device, error) {
	var f *os.File
	err := untilFree(ctx, func() error {
		var err error
		// Linux lets a block device be opened so only once, and not if it is mounted.
		f, err = os.OpenFile(path, os.O_RDWR|os.O_EXCL|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open disk %s: %w", path, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size < headSize {
		err = errorf(TooLarge, "the device %s has only %d bytes", path, size)
	}
	var state State
	if err == nil {
		// Once more, as nobody else can write now.
		state, err = lookAtDevice(f)
	}
	if err != nil || state == HasContent {
		f.Close()
		return nil, err
	}
	return &device{f: f, size: size, flow: writeback{f: f}}, nil
}

func (d *device) limit() int64 { return d.size }

func (d *device) begin(source string) error {
	if _, err := d.f.WriteAt(header{Version: 1, Source: source}.encode(), 0); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	return nil
}

// WriteAt keeps the head back.
func (d *device) WriteAt(p []byte, at int64) (int, error) {
	kept := 0
	if at < headSize {
		kept = copy(d.head[at:], p)
	}
	if kept == len(p) {
		return kept, nil
	}
	n, err := d.f.WriteAt(p[kept:], at+int64(kept))
	d.flow.wrote(n)
	return kept + n, err
}

// zeroStep is how much is zeroed at once: it may take as long as writing it, and cannot be interrupted.
const zeroStep = 64 << 20

// zero clears a range: the device may have been used before.
func (d *device) zero(ctx context.Context, at, n int64) error {
	if skip := min(n, headSize-at); skip > 0 {
		at, n = at+skip, n-skip
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := min(n, zeroStep)
		if err := d.zeroStep(at, step); err != nil {
			return fmt.Errorf("clear disk: %w", err)
		}
		at, n = at+step, n-step
	}
	return nil
}

// zeroStep lets the device discard the range, if it reads as zeros then, or has it zeroed, or writes zeros.
func (d *device) zeroStep(at, n int64) error {
	for _, mode := range []uint32{unix.FALLOC_FL_PUNCH_HOLE, unix.FALLOC_FL_ZERO_RANGE} {
		if d.noZeroing {
			break
		}
		err := unix.Fallocate(int(d.f.Fd()), mode|unix.FALLOC_FL_KEEP_SIZE, at, n)
		if err == nil {
			return nil
		}
		// EINVAL is for what is no multiple of the device's blocks.
		if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		d.noZeroing = mode == unix.FALLOC_FL_ZERO_RANGE && errors.Is(err, unix.EOPNOTSUPP)
	}
	for n > 0 {
		written, err := d.f.WriteAt(zeros[:min(n, int64(len(zeros)))], at)
		if err != nil {
			return err
		}
		d.flow.wrote(written)
		at, n = at+int64(written), n-int64(written)
	}
	return nil
}

// convert has all but the head written, and reads that apart.
func (d *device) convert(ctx context.Context, q *qemuImg) error {
	head, err := q.head(ctx, headSize)
	if err != nil {
		return err
	}
	copy(d.head[:], head)
	if q.size <= headSize {
		return nil
	}
	return q.convert(ctx, d.f, conversion{driver: "host_device", skip: headSize, length: wholeSectors(q.size) - headSize})
}

// finish clears the rest, and lets the head follow when all else is on the storage: its first sector at the very end, since
// only a sector is surely written as a whole.
func (d *device) finish(ctx context.Context, size int64, m *meter) error {
	m.begin(Zeroing, d.size-size)
	for at := size; at < d.size; {
		n := min(d.size-at, zeroStep)
		if err := d.zero(ctx, at, n); err != nil {
			return err
		}
		at += n
		m.add(n)
	}
	m.begin(Syncing, 0)
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if err := d.checkEdge(); err != nil {
		return err
	}
	for _, part := range [][2]int{{sectorSize, headSize}, {0, sectorSize}} {
		if _, err := d.f.WriteAt(d.head[part[0]:part[1]], int64(part[0])); err != nil {
			return fmt.Errorf("write disk: %w", err)
		}
		if err := d.f.Sync(); err != nil {
			return fmt.Errorf("write disk: %w", err)
		}
	}
	return nil
}

// checkEdge refuses content that would be taken for none at the next start, when the guest may already have written elsewhere.
func (d *device) checkEdge() error {
	if isHeader(d.head[:]) {
		return errUnfinished
	}
	if !allZero(d.head[:]) {
		return nil
	}
	zero, err := isZero(d.f, headSize, min(edge, d.size)-headSize)
	if err != nil {
		return fmt.Errorf("read disk: %w", err)
	}
	if zero {
		return errorf(UnsupportedFormat, "the content has only zeros in its first MiB, so that the disk could not be told from an empty one")
	}
	return nil
}

func (d *device) close() { d.f.Close() }
