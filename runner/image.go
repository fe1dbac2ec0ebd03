package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrNoImage says that there is something else than an image file at its path.
var ErrNoImage = errors.New("not a regular file")

// make makes the image file, sparse, if it is not there, and grows it if it is smaller than its size. It never shrinks one.
func (i Image) make(user *User) error {
	info, err := os.Stat(i.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("open disk image: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open disk image %s: %w", i.Path, ErrNoImage)
	case info.Size() >= i.Size:
		return nil
	}
	// Without O_TRUNC, and without blocking at what may have come to be there since.
	f, err := os.OpenFile(i.Path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("open disk image: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(i.Size); err != nil {
		return fmt.Errorf("grow disk image: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("grow disk image: %w", err)
	}
	if info == nil {
		return user.own(i.Path)
	}
	return nil
}
