package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// After the first signal only Ctrl-C switches the VM off.
func TestPowerButton(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signals, force := make(chan os.Signal), make(chan struct{})
	go powerButton(ctx, signals, cancel, force, slog.New(slog.DiscardHandler), &runner.Config{})
	signals <- syscall.SIGTERM
	<-ctx.Done()
	// The third one is taken when the second has been dealt with.
	signals <- syscall.SIGTERM
	signals <- syscall.SIGHUP
	select {
	case <-force:
		t.Fatal("a second SIGTERM switches the VM off")
	default:
	}
	signals <- os.Interrupt
	<-force
}
