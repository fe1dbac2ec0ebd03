package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// file is a disk that is a file. It is written under its other name, sparse.
type file struct {
	path string
	own  func(string) error
	// size is what the disk is to have at least, 0 for what the content has.
	size int64
	f    *os.File
	flow writeback
}

// openFile returns nil if the disk has content.
func openFile(ctx context.Context, t Target) (*file, error) {
	f, err := lockLeftover(ctx, Leftover(t.Path))
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	d := &file{path: t.Path, own: t.Own, size: t.Size, f: f, flow: writeback{f: f}}
	// Who had the lock before may have been faster.
	state, err := Look(t.Path)
	if err != nil || state == HasContent {
		d.close()
		return nil, err
	}
	if info, err := os.Stat(t.Path); err == nil && t.Size > 0 {
		d.size = max(d.size, info.Size())
	}
	if err := f.Truncate(0); err != nil {
		d.close()
		return nil, fmt.Errorf("empty what an earlier import has left: %w", err)
	}
	return d, nil
}

// lockLeftover opens and locks the file that is there under the name when it is locked.
func lockLeftover(ctx context.Context, name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		err = untilFree(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
		if err != nil {
			f.Close()
			return nil, err
		}
		mine, err := f.Stat()
		if err == nil && !mine.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", name)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		there, err := os.Lstat(name)
		if err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func (d *file) limit() int64 { return d.size }

func (d *file) begin(string) error { return nil }

func (d *file) WriteAt(p []byte, at int64) (int, error) {
	n, err := d.f.WriteAt(p, at)
	d.flow.wrote(n)
	return n, err
}

// zero does nothing: there is a hole.
func (d *file) zero(context.Context, int64, int64) error { return nil }

func (d *file) convert(ctx context.Context, q *qemuImg) error {
	if err := d.f.Truncate(wholeSectors(q.size)); err != nil {
		return err
	}
	return q.convert(ctx, d.f, conversion{driver: "file", length: wholeSectors(q.size), zeroed: true})
}

func (d *file) finish(_ context.Context, size int64, m *meter) error {
	m.begin(Syncing, 0)
	if err := d.f.Truncate(wholeSectors(max(size, d.size))); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if err := d.f.Sync(); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if d.own != nil {
		if err := d.own(Leftover(d.path)); err != nil {
			return err
		}
	}
	if err := os.Rename(Leftover(d.path), d.path); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	err := d.f.Close()
	d.f = nil
	return errors.Join(err, syncDir(filepath.Dir(d.path)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("write directory: %w", err)
	}
	return nil
}

// close removes a file that has not become the disk, before somebody else can have its lock.
func (d *file) close() {
	if d.f == nil {
		return
	}
	os.Remove(Leftover(d.path))
	d.f.Close()
	d.f = nil
}

// wholeSectors rounds up: QEMU has disks of whole sectors.
func wholeSectors(size int64) int64 { return (size + sectorSize - 1) / sectorSize * sectorSize }

// writeback has the kernel write while there is more to come, so that not all is left for the sync at the end, and the memory
// of a small cgroup is not full of what waits to be written.
type writeback struct {
	f       *os.File
	pending int
}

// writebackEvery is how much has to be written before the kernel hears of it.
const writebackEvery = 32 << 20

func (w *writeback) wrote(n int) {
	if w.pending += n; w.pending < writebackEvery {
		return
	}
	w.pending = 0
	// Only a hint.
	_ = unix.SyncFileRange(int(w.f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
