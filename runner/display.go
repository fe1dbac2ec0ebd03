package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// setPassword sets the display's password, and when it expires.
func (v *vm) setPassword(ctx context.Context, d *Display) error {
	if d == nil || d.PasswordFile == "" {
		return nil
	}
	password, err := readLine(d.PasswordFile)
	if err != nil {
		return err
	}
	args := map[string]string{"protocol": d.Protocol, "password": password}
	if err := v.monitor.Execute(ctx, "set_password", args, nil); err != nil {
		return err
	}
	if d.ExpiryFile == "" {
		return nil
	}
	expiry, err := readLine(d.ExpiryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || expiry == "" {
		return err
	}
	args = map[string]string{"protocol": d.Protocol, "time": expiry}
	return v.monitor.Execute(ctx, "expire_password", args, nil)
}

// readLine reads a file that holds one line, without its end.
func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}
