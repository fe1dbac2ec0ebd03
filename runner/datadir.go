package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrRunning says that another runner runs a VM on the same data directory.
var ErrRunning = errors.New("VM runs already")

// lockFile is the file in the data directory that a runner holds the lock of.
const lockFile = "runner.lock"

// dataDir is the directory of what outlives a start, locked for this runner. The kernel releases
// the lock when the process ends, however it ends.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if it is not there and locks it. If another runner has the lock, the error wraps ErrRunning.
func openDataDir(path string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("config names no data directory")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &dataDir{path: path, lock: lock}, nil
	}
	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another runner uses the data directory %s", ErrRunning, path)
	}
	return nil, fmt.Errorf("lock data directory %s: %w", path, err)
}

func (d *dataDir) close() {
	d.lock.Close()
}
