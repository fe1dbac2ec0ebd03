package content

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// State is what there is of a disk.
type State string

// The states.
const (
	// Absent: there is no file.
	Absent State = "Absent"
	// Empty: there is no content.
	Empty State = "Empty"
	// Unfinished: filling a block device has begun and not come to its end. A guest must not run on it.
	Unfinished State = "Unfinished"
	// HasContent: there is content, ours or that of others.
	HasContent State = "HasContent"
)

// edge is how much at its begin and at its end says whether a block device has content. All tables of partitions, and all file systems,
// volumes and containers that are known, have something there.
const edge = 1 << 20

// Look finds out what there is of a disk, a file or a block device. Nothing but zeros is no content. Of a file every byte counts.
func Look(path string) (State, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at disk: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("look at disk: %w", err)
	}
	var state State
	switch {
	case info.Mode().IsRegular():
		state, err = lookAtFile(f)
	case isBlockDevice(info):
		state, err = lookAtDevice(f)
	default:
		return "", errorf(Failed, "%s is neither a file nor a block device", path)
	}
	if err != nil {
		return "", fmt.Errorf("look at disk %s: %w", path, err)
	}
	return state, nil
}

// IsUnfinished says whether a disk is a block device in the state Unfinished. It reads one sector; what cannot be read is not.
func IsUnfinished(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !isBlockDevice(info) {
		return false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, sectorSize)
	_, err = f.ReadAt(first, 0)
	return err == nil && isHeader(first)
}

func isBlockDevice(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
}

func lookAtDevice(f *os.File) (State, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	first := make([]byte, min(size, sectorSize))
	if _, err := f.ReadAt(first, 0); err != nil {
		return "", err
	}
	if isHeader(first) {
		return Unfinished, nil
	}
	for _, at := range []int64{0, max(0, size-edge)} {
		zero, err := isZero(f, at, min(edge, size-at))
		if err != nil || !zero {
			return HasContent, err
		}
	}
	return Empty, nil
}

// lookAtFile reads what is there of a file, and no holes.
func lookAtFile(f *os.File) (State, error) {
	for at := int64(0); ; {
		start, end, err := nextData(f, at)
		if errors.Is(err, io.EOF) {
			return Empty, nil
		}
		if err != nil {
			return "", err
		}
		zero, err := isZero(f, start, end-start)
		if err != nil || !zero {
			return HasContent, err
		}
		at = end
	}
}

// nextData returns where a file has data next, from an offset on, or io.EOF if it has no more.
func nextData(f *os.File, at int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, 0, io.EOF
	}
	if err != nil {
		return 0, 0, fmt.Errorf("find data: %w", err)
	}
	end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, fmt.Errorf("find hole: %w", err)
	}
	return start, end, nil
}

// isZero says whether a range has only zeros.
func isZero(f io.ReaderAt, at, n int64) (bool, error) {
	buf := make([]byte, min(n, edge))
	for n > 0 {
		read, err := f.ReadAt(buf[:min(n, int64(len(buf)))], at)
		if err != nil && (read == 0 || !errors.Is(err, io.EOF)) {
			return false, err
		}
		if !allZero(buf[:read]) {
			return false, nil
		}
		at, n = at+int64(read), n-int64(read)
	}
	return true, nil
}

// zeros is what zeros are compared with, and written from.
var zeros [1 << 20]byte

// allZero says whether there are only zeros in up to 1 MiB.
func allZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }
