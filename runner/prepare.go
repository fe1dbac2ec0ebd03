package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// prepare makes everything that QEMU needs before it starts.
func (v *vm) prepare(ctx context.Context) error {
	data, err := openDataDir(v.cfg.Boot.DataDir)
	if err != nil {
		return err
	}
	v.data = data
	v.onCleanup(data.close)
	if err := os.MkdirAll(v.cfg.Boot.RuntimeDir, 0o700); err != nil {
		return fmt.Errorf("make runtime directory: %w", err)
	}
	if v.values.Resolve, err = v.resolve(ctx); err != nil {
		return err
	}
	if v.fds, err = inherit(v.cfg.Boot.fdNames(), nil); err != nil {
		return err
	}
	v.onCleanup(v.fds.close)
	return nil
}

// findBinary returns the first of the names or paths that is a program.
func findBinary(binaries []string) (string, error) {
	for _, b := range binaries {
		if path, err := exec.LookPath(b); err == nil {
			return path, nil
		}
	}
	if len(binaries) == 0 {
		return "", errors.New("config names no QEMU binary")
	}
	return "", fmt.Errorf("no QEMU found: tried %s", strings.Join(binaries, ", "))
}
