package runner

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// tpmDelay is how long swtpm may take to end after QEMU: it does so by itself.
const tpmDelay = 2 * time.Second

// maxSocketPath is the longest path of a Unix socket, sizeof(sun_path) less the final NUL.
const maxSocketPath = 107

// startTPM starts swtpm. It inherits its socket, which listens already, so that QEMU can connect
// without waiting for it.
func (v *vm) startTPM() error {
	t := v.cfg.Boot.TPM
	if t == nil {
		return nil
	}
	program, err := findBinary("TPM emulator", "swtpm", "swtpm")
	if err != nil {
		return err
	}
	if strings.Contains(t.State, ",") {
		return fmt.Errorf("start TPM emulator: swtpm takes no directory with a comma in its path: %s", t.State)
	}
	if err := os.MkdirAll(t.State, 0o700); err != nil {
		return fmt.Errorf("make TPM's state directory: %w", err)
	}
	socket, err := t.listen()
	if err != nil {
		return fmt.Errorf("make TPM's socket: %w", err)
	}
	defer socket.Close()
	v.onCleanup(func() { os.Remove(t.Socket) })
	if err := v.cfg.Boot.User.own(t.State, t.Socket); err != nil {
		return err
	}
	v.tpm, err = startProcess(v.launcher, v.cfg.Boot.User, program, []string{
		"socket", "--tpm2",
		"--tpmstate", "dir=" + t.State,
		"--ctrl", fmt.Sprintf("type=unixio,fd=%d", firstFD),
		"--terminate",
	}, []*os.File{socket})
	if err != nil {
		return err
	}
	v.onCleanup(v.endTPM)
	return nil
}

// listen returns the listening socket. What is at its path is left from an earlier start: the data directory is locked.
func (t *TPM) listen() (*os.File, error) {
	if len(t.Socket) > maxSocketPath {
		return nil, fmt.Errorf("%s is longer than %d bytes", t.Socket, maxSocketPath)
	}
	if err := os.Remove(t.Socket); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Chmod(t.Socket, 0o600); err != nil {
		return nil, err
	}
	return listener.File()
}

// watchTPM reports the end of swtpm before that of QEMU, which ends the context. The guest goes on without its TPM.
func (v *vm) watchTPM(untilExit context.Context) {
	if !v.tpm.wait(untilExit) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitDelay)
	defer cancel()
	if !v.qemu.wait(ctx) {
		v.log.Error("TPM emulator ended: the guest's TPM does not work any more", "error", v.tpm.failure())
	}
}

// endTPM lets swtpm end after QEMU. It would wait for ever for a QEMU that has never connected.
func (v *vm) endTPM() {
	ctx, cancel := context.WithTimeout(context.Background(), tpmDelay)
	defer cancel()
	if !v.running || !v.tpm.wait(ctx) {
		v.kill(v.tpm)
	}
}
