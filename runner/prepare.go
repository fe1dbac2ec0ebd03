package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/cuvee-vm/cuvee/runner/nocloud"
)

// prepare makes everything that QEMU needs before it starts.
func (v *vm) prepare(ctx context.Context) error {
	boot := v.cfg.Boot
	data, err := openDataDir(boot.DataDir)
	if err != nil {
		return err
	}
	v.data = data
	v.onCleanup(data.close)
	if err := os.MkdirAll(boot.RuntimeDir, 0o700); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	if err := boot.User.own(boot.DataDir, boot.RuntimeDir); err != nil {
		return err
	}
	// It waits for the host's disk most of the time, and nothing else that is prepared depends on it.
	noCloud := v.beginNoCloud()
	if err := v.prepareOthers(ctx); err != nil {
		return err
	}
	return <-noCloud
}

// prepareOthers makes what QEMU needs besides the cloud-init disk.
func (v *vm) prepareOthers(ctx context.Context) error {
	boot := v.cfg.Boot
	if err := v.fillDisks(ctx); err != nil {
		return err
	}
	if err := v.refuseUnfinished(); err != nil {
		return err
	}
	for _, image := range boot.Images {
		if image.Size == 0 {
			newest, _ := v.newest.get()
			image.Size = newest.Live.Disks[image.Disk].Size
		}
		if err := image.make(boot.User); err != nil {
			return err
		}
	}
	var err error
	if v.program, err = findBinary("QEMU", "qemu-system-x86", boot.Binaries...); err != nil {
		return err
	}
	if err := v.makeOverlays(ctx); err != nil {
		return err
	}
	if err := v.resolve(ctx); err != nil {
		return err
	}
	if err := v.makeFirmwareVars(); err != nil {
		return err
	}
	if err := v.startTPM(); err != nil {
		return err
	}
	return v.openFDs()
}

// openFDs makes what QEMU inherits.
func (v *vm) openFDs() error {
	taps, err := openTaps(v.cfg.Boot.Taps)
	if err != nil {
		return err
	}
	if v.taps, err = tapNames(taps); err != nil {
		return err
	}
	v.fds, err = inherit(v.cfg.Boot.fdNames(), taps)
	if err != nil {
		return err
	}
	v.onCleanup(v.fds.close)
	return nil
}

// beginNoCloud begins to make the cloud-init disk; the channel tells how that ended. The disk is removed again at the end: it
// may hold secrets.
func (v *vm) beginNoCloud() <-chan error {
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		result <- v.makeNoCloud()
	}()
	v.onCleanup(func() {
		<-done
		if n := v.cfg.Boot.NoCloud; n != nil {
			os.Remove(n.Image)
		}
	})
	return result
}

// makeNoCloud makes the cloud-init disk.
func (v *vm) makeNoCloud() error {
	n := v.cfg.Boot.NoCloud
	if n == nil {
		return nil
	}
	files := make(map[string][]byte)
	for name, path := range n.Files {
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
			files[name] = data
		case !errors.Is(err, fs.ErrNotExist) || name == nocloud.MetaData:
			return fmt.Errorf("read cloud-init data: %w", err)
		}
	}
	if err := nocloud.Write(n.Image, files); err != nil {
		return err
	}
	return v.cfg.Boot.User.own(n.Image)
}

// own gives files to the user that QEMU runs as, if that is another one.
func (u *User) own(paths ...string) error {
	if u == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("give file to QEMU's user: %w", err)
		}
	}
	return nil
}

// findBinary returns the first of the names or paths that is a program. The error names Debian's package with it.
func findBinary(what, debian string, binaries ...string) (string, error) {
	for _, b := range binaries {
		if path, err := exec.LookPath(b); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s found, tried: %s; Debian has it in the package %s", what, strings.Join(binaries, ", "), debian)
}
