package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// display is the password of a display, and when it expires. Both are in files that may change.
type display struct {
	monitor *qmp.Monitor
	report  *report
	every   time.Duration
	// done is what was set last, nil if nothing was.
	done *displayPassword
	// expiry is the time that was set last.
	expiry string
}

// displayPassword is a password with the display that it is for.
type displayPassword struct {
	protocol, password string
}

func (d *display) apply(ctx context.Context, live *Live) error {
	l := live.Display
	if l == nil || l.PasswordFile == "" {
		return nil
	}
	d.report.update(func(s *Status) { s.DisplayPasswordSerial = max(s.DisplayPasswordSerial, 0) })
	password, err := readLine(l.PasswordFile)
	if err != nil {
		return fmt.Errorf("password: %w", err)
	}
	want := displayPassword{protocol: l.Protocol, password: password}
	isNew := d.done == nil || *d.done != want
	if isNew {
		args := map[string]string{"protocol": want.protocol, "password": want.password}
		if err := d.monitor.Execute(ctx, "set_password", args, nil); err != nil {
			return err
		}
		d.done, d.expiry = &want, ""
		d.report.update(func(s *Status) { s.DisplayPasswordSerial++ })
	}
	return d.expire(ctx, l)
}

// expire sets when the password expires: a time that is new, and each time for a new password.
func (d *display) expire(ctx context.Context, l *Display) error {
	if l.ExpiryFile == "" {
		return nil
	}
	expiry, err := readLine(l.ExpiryFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("password's expiry: %w", err)
	}
	if expiry == "" || expiry == d.expiry {
		return nil
	}
	args := map[string]string{"protocol": l.Protocol, "time": expiry}
	if err := d.monitor.Execute(ctx, "expire_password", args, nil); err != nil {
		return err
	}
	d.expiry = expiry
	return nil
}

func (d *display) wakes(qmp.Event) bool { return false }

func (d *display) polls(live *Live) time.Duration {
	if live.Display == nil {
		return 0
	}
	return d.every
}

// readLine reads a file that holds one line, without its end.
func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}
