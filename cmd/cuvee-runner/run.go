package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/cluster"
)

// Main runs the command with these arguments and returns its exit code. What it says, it says on out.
func Main(args []string, out io.Writer) int {
	o, err := parse(args, out)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return runner.ExitStopped
	case err != nil:
		fmt.Fprintf(out, "cuvee-runner: %v\nsee 'cuvee-runner --help'\n", err)
		return exitUsage
	case o.version:
		printVersion(out)
		return runner.ExitStopped
	}
	log := newLogger(out, o.level)
	code, err := o.run(log)
	if err != nil {
		log.Error("runner ends", "error", err, "code", code)
		return code
	}
	log.Info("runner ends", "code", code)
	return code
}

// run is the life of the process.
func (o *options) run(log *slog.Logger) (int, error) {
	following, cancel := context.WithCancel(context.Background())
	defer cancel()
	first, changes, err := runner.FollowConfig(following, o.config, log)
	if err != nil {
		return runner.ExitFailed, err
	}
	m := newMachine(first, changes, log)
	go m.take(following)
	ctx, release := powerButton(m)
	defer release()
	stop, err := o.serve(m)
	if err != nil {
		return runner.ExitFailed, err
	}
	defer stop()
	stopConsole, err := o.serveConsole(m)
	if err != nil {
		return runner.ExitFailed, err
	}
	defer stopConsole()

	where, err := newPlace(o.credentials, first)
	switch {
	case errors.Is(err, cluster.ErrNoCluster):
		m.log.Info("no cluster: status and events are written nowhere, and no lease is held")
		return m.runAlone(ctx)
	case err != nil:
		return runner.ExitFailed, err
	}
	return m.runIn(ctx, where)
}

// powerButton returns a context that ends with the first signal; a second SIGINT ends QEMU at once. A second SIGTERM does not: kubelet
// may send several.
func powerButton(m *machine) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				if s == os.Interrupt && ctx.Err() != nil {
					m.end()
				}
				m.log.Info("stop is requested", "signal", s.String())
				cancel()
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(over); cancel() }
}
