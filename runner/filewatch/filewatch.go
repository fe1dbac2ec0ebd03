// Package filewatch tells when files change, also where kubelet changes them: it swaps a symlink in the directory of a
// ConfigMap or Secret, and the files are then others of the same names.
//
// It looks at the files from time to time. That works on every file system, with every way of replacing a file, needs no
// file descriptors, and costs some microseconds a look; kubelet itself takes up to a minute.
package filewatch

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"
)

// Interval is how often to look where nothing calls for another interval.
const Interval = 2 * time.Second

// Watch returns a channel that gets a value when at least one of the files has been made, changed, replaced or removed since
// the call. Changes that nobody has taken note of yet are one. It ends with the context.
func Watch(ctx context.Context, interval time.Duration, paths ...string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	last := look(paths)
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := look(paths)
			if slices.Equal(last, now) {
				continue
			}
			last = now
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

// identity is what tells a file from what it was before. It is zero if there is none.
type identity struct {
	device, inode uint64
	size, mtime   int64
}

func look(paths []string) []identity {
	seen := make([]identity, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		seen[i] = identity{size: info.Size(), mtime: info.ModTime().UnixNano()}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			seen[i].device, seen[i].inode = stat.Dev, stat.Ino
		}
	}
	return seen
}
