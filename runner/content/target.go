package content

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// target is the disk that is being filled.
type target interface {
	// limit is how many bytes the content may have; 0 if only the storage is a limit.
	limit() int64
	// begin marks the disk as unfinished. Before it, nothing has been written.
	begin(source string) error
	// WriteAt writes content. Nothing is written twice.
	WriteAt(p []byte, at int64) (int, error)
	// zero says that a range of the content is zeros.
	zero(ctx context.Context, at, n int64) error
	// convert has an image written that qemu-img reads.
	convert(ctx context.Context, q *qemuImg) error
	// finish makes a disk of the content, which has size bytes.
	finish(ctx context.Context, size int64, m *meter) error
	// close gives up what has not been finished.
	close()
}

// Leftover is where a file is written before it is the disk at a path. What is there when nobody fills the disk is left from somebody who
// was interrupted; filling the disk starts over there.
func Leftover(path string) string { return path + ".importing" }

// dropLeftover removes what an interrupted filling has left, where it is not needed any more.
func dropLeftover(path string) error {
	if err := os.Remove(Leftover(path)); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("remove what is left from filling: %w", err)
	}
	return nil
}

func (t Target) scratch() string {
	if t.Scratch != "" {
		return t.Scratch
	}
	if info, err := os.Stat(t.Path); err == nil && isBlockDevice(info) {
		return os.TempDir()
	}
	return filepath.Dir(t.Path)
}

// openTarget locks the disk for us. It returns nil if the disk has content by now.
func openTarget(ctx context.Context, t Target) (target, error) {
	info, err := os.Stat(t.Path)
	if err == nil && isBlockDevice(info) {
		d, err := openDevice(ctx, t.Path)
		if d == nil {
			return nil, err
		}
		return d, nil
	}
	f, err := openFile(ctx, t)
	if f == nil {
		return nil, err
	}
	return f, nil
}

// How long a disk is waited for that somebody else works on, and how often is tried: whose runner was killed, for instance, may still have a
// converter that is about to end.
const (
	lockWait  = 5 * time.Second
	lockEvery = 50 * time.Millisecond
)

// untilFree calls lock until it fails for another reason than a disk in use, or has waited long enough.
func untilFree(ctx context.Context, lock func() error) error {
	deadline := time.Now().Add(lockWait)
	for {
		err := lock()
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(deadline) {
			return errorf(InUse, "somebody else works on the disk: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}
