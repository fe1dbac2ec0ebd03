package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/cuvee-vm/cuvee/runner/qmp"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// ErrScreenshot says that QEMU has made no picture of the screen.
var ErrScreenshot = errors.New("no screenshot")

// MaxScreenshot is the size in bytes of the largest picture that is handed out. A screen of 4096x2160 pixels of noise has 26 MB.
const MaxScreenshot = 64 << 20

// screen is what the guest shows, of a QEMU that was started with "-vnc none".
type screen struct {
	monitor *qmp.Monitor
	user    *User
	dir     string
	// vnc and shot are held while QEMU is given a client, and while it draws: names in QEMU are one for all.
	vnc, shot sync.Mutex
}

// VNC returns a connection to QEMU's VNC server, which asks for no password: who may connect is the caller's to decide.
// QEMU needs to have the option "-vnc none". Without a running QEMU the error is ErrNotRunning.
func (m *VM) VNC(ctx context.Context) (net.Conn, error) {
	s := m.vm.screen.Load()
	if s == nil {
		return nil, ErrNotRunning
	}
	return s.connect(ctx)
}

// Screenshot returns what the guest shows on its first screen, as a PNG. Without a running QEMU the error is ErrNotRunning.
func (m *VM) Screenshot(ctx context.Context) ([]byte, error) {
	s := m.vm.screen.Load()
	if s == nil {
		return nil, ErrNotRunning
	}
	return s.screenshot(ctx)
}

// Serial is the guest's first serial port. It can be read before and after the run, too.
func (m *VM) Serial() *serial.Port { return m.vm.opts.Serial }

// vncFD is the name that QEMU knows a new client by, until the VNC server has it.
const vncFD = "vnc-client"

// connect gives QEMU one end of a socket pair as a VNC client.
func (s *screen) connect(ctx context.Context) (net.Conn, error) {
	s.vnc.Lock()
	defer s.vnc.Unlock()
	theirs, ours, err := socketPair(vncFD)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := s.monitor.ExecuteWithFile(ctx, "getfd", map[string]string{"fdname": vncFD}, theirs, nil); err != nil {
		ours.Close()
		return nil, err
	}
	args := map[string]any{"protocol": "vnc", "fdname": vncFD, "skipauth": true}
	if err := s.monitor.Execute(ctx, "add_client", args, nil); err != nil {
		ours.Close()
		return nil, err
	}
	return ours, nil
}

// screenshotFile is where QEMU draws in the runtime directory.
const screenshotFile = "screenshot.png"

// screenshot lets QEMU draw into a file that is there only meanwhile. It is read by the descriptor that it was made with, as its directory is QEMU's.
func (s *screen) screenshot(ctx context.Context) ([]byte, error) {
	s.shot.Lock()
	defer s.shot.Unlock()
	path := filepath.Join(s.dir, screenshotFile)
	// A runner that was killed may have left one.
	_ = os.Remove(path)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make file for screenshot: %w", err)
	}
	defer file.Close()
	defer os.Remove(path)
	if s.user != nil {
		if err := file.Chown(int(s.user.UID), int(s.user.GID)); err != nil {
			return nil, fmt.Errorf("give file for screenshot to QEMU's user: %w", err)
		}
	}
	if err := s.monitor.Execute(ctx, "screendump", map[string]string{"filename": path, "format": "png"}, nil); err != nil {
		return nil, err
	}
	picture, err := io.ReadAll(io.LimitReader(file, MaxScreenshot+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read screenshot: %w", err)
	case len(picture) == 0:
		return nil, fmt.Errorf("%w: QEMU wrote nothing", ErrScreenshot)
	case len(picture) > MaxScreenshot:
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrScreenshot, MaxScreenshot)
	}
	return picture, nil
}
