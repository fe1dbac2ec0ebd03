package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// runtimePrefix begins the names of runtime directories.
const runtimePrefix = "cuvee-"

// runtimeLock is the file in a runtime directory that is locked while its VM runs.
const runtimeLock = "lock"

// runtimeDir is a directory of its own for each run: what is in it, Secrets among it, ends with the run.
type runtimeDir struct {
	path string
	lock *os.File
}

// newRuntimeDir makes a runtime directory, and removes those that are left from runs that were killed.
func newRuntimeDir() (*runtimeDir, error) {
	base := runtimeBase()
	removeLeft(base)
	path, err := os.MkdirTemp(base, runtimePrefix)
	if err != nil {
		return nil, err
	}
	d := &runtimeDir{path: path}
	if d.lock, err = lockRuntimeDir(path, os.O_CREATE); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return d, nil
}

// remove removes the directory and all that is in it.
func (d *runtimeDir) remove() {
	os.RemoveAll(d.path)
	d.lock.Close()
}

// lockRuntimeDir locks a runtime directory, or fails if somebody else has.
func lockRuntimeDir(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, runtimeLock), os.O_RDWR|syscall.O_NOFOLLOW|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// runtimeBase is the directory that runtime directories are in.
func runtimeBase() string {
	if base := os.Getenv("XDG_RUNTIME_DIR"); base != "" {
		return base
	}
	return os.TempDir()
}

// runtimeDirs are the directories of this user that look like runtime directories.
func runtimeDirs(base string) []string {
	dirs, err := filepath.Glob(filepath.Join(base, runtimePrefix+"*"))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			return true
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		return !ok || int(owner.Uid) != os.Getuid()
	})
}

// removeLeft removes runtime directories of this user that no run has a lock on. That it cannot is no reason not to run.
func removeLeft(base string) {
	for _, dir := range runtimeDirs(base) {
		// Without a lock it is another program's, or just being made.
		if lock, err := lockRuntimeDir(dir, 0); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}
