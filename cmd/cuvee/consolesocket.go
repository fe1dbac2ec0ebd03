package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/consoleserver"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// consoleSocket is a VM's serial port and screen, on a socket in its runtime directory. It outlives the VM's restarts.
type consoleSocket struct {
	serial *serial.Port
	vm     atomic.Pointer[runner.VM]
}

// serveConsole serves the console of a VM that is about to run, until the function that it returns is called. A VM whose console cannot
// be served is of use all the same.
func serveConsole(dir string, log *slog.Logger) (*consoleSocket, func()) {
	c := &consoleSocket{serial: serial.New(serial.DefaultSize)}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := consoleserver.ListenUnix(ctx, filepath.Join(dir, consoleserver.SocketName))
	if err != nil {
		cancel()
		log.Warn("the console cannot be reached from elsewhere", "error", err)
		return c, func() {}
	}
	server := consoleserver.New(consoleserver.Options{Serial: c.serial, Screen: c.screen, Log: log})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, l, nil); err != nil {
			log.Warn("the console is not served any more", "error", err)
		}
	}()
	return c, func() { cancel(); <-done }
}

func (c *consoleSocket) screen() consoleserver.Screen {
	if vm := c.vm.Load(); vm != nil {
		return vm
	}
	return nil
}
