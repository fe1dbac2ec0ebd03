package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// startRunner measures from the call of Run until it says that the guest runs, and ends the VM.
func (v *vm) startRunner(ctx context.Context) (time.Duration, error) {
	return v.run(ctx, nil, func() error { return nil }, func() error { return nil })
}

// run starts the VM, calls booted when the guest runs, and ends the VM when settled, which is called after it, returns.
func (v *vm) run(ctx context.Context, logger *slog.Logger, booted, settled func() error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	force := make(chan struct{})
	var took time.Duration
	var fault error
	last := make(chan error, 1)
	begin := time.Now()
	_, err := runner.Run(ctx, v.config, runner.Options{Logger: logger, Force: force, Observe: func(s runner.State) {
		if s != runner.Booting {
			return
		}
		took = time.Since(begin)
		fault = booted()
		go func() {
			last <- settled()
			close(force)
		}()
	}})
	if err := errors.Join(err, fault); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, errors.New("the guest did not run")
	}
	return took, <-last
}

// firstStart makes what stays between starts, and takes down what the runner starts QEMU with.
func (v *vm) firstStart(ctx context.Context) error {
	// The disk's file, the firmware's variables and the choices are made by a start before that one, so that the choices
	// are those of all further starts.
	_, err := v.run(ctx, nil, func() error { return nil }, func() error { return v.awaitKept(ctx) })
	if err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	_, err = v.run(ctx, slog.New(v.listener()), func() error {
		var err error
		v.image, err = os.ReadFile(v.config.Boot.NoCloud.Image)
		return err
	}, func() error { return nil })
	if err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	if v.program == "" {
		return errors.New("the runner did not say what it starts")
	}
	return write(v.config.Boot.NoCloud.Image, v.image)
}

// listener takes down the arguments of the runner's message that it starts QEMU.
func (v *vm) listener() slog.Handler { return listener{v} }

type listener struct{ vm *vm }

func (listener) Enabled(context.Context, slog.Level) bool { return true }
func (l listener) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l listener) WithGroup(string) slog.Handler          { return l }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "starting QEMU" {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		switch value := a.Value.Any().(type) {
		case string:
			l.vm.program = value
		case []string:
			l.vm.argv = value
		}
		return true
	})
	return nil
}
