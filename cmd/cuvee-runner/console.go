package main

import (
	"context"

	"github.com/cuvee-vm/cuvee/runner/consoleserver"
	"github.com/cuvee-vm/cuvee/runner/endpoint"
	"github.com/cuvee-vm/cuvee/runner/filewatch"
)

// serveConsole serves the VM's consoles; the function that it returns ends that.
func (o *options) serveConsole(m *machine) (func(), error) {
	if o.console == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := endpoint.Listen(ctx, o.console, m.log.With("for", "consoles"))
	if err != nil {
		cancel()
		return nil, err
	}
	m.log.Info("serving consoles", "address", listener.Addr().String())
	files := consoleserver.WatchFiles(ctx, o.consoleDir, filewatch.Interval, m.log)
	server := consoleserver.New(consoleserver.Options{
		Serial: m.serial,
		Screen: func() consoleserver.Screen { return m.vm.Load() },
		Token:  files.Token,
		Log:    m.log,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, listener, files.TLS()); err != nil {
			m.log.Error("consoles are not served any more", "error", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}
