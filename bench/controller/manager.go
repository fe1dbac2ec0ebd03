package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/bench/proc"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// startManager starts the manager, with as many rights as an administrator.
func (b *bench) startManager(ctx context.Context, args ...string) error {
	config, err := b.server.User(agent, "system:masters")
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "kubeconfig")
	if err := testserver.WriteKubeconfig(file, config); err != nil {
		return err
	}
	if b.metrics, err = freeAddress(); err != nil {
		return err
	}
	args = append([]string{
		"--kubeconfig=" + file, "--namespace=" + bare, "--watch-namespaces=" + managed, "--templates=" + b.templates, "--leader-election=false",
		"--metrics-bind-address=" + b.metrics, "--health-probe-bind-address=0", "--debug-address=" + b.debug, fmt.Sprintf("--max-concurrent-reconciles=%d", workers),
	}, args...)
	if b.manager, err = testserver.StartProcess(nil, b.program, args...); err != nil {
		return err
	}
	// It has its templates then, those that it was given or those that it has kept.
	_, err = b.await(ctx, "the manager works", func() (bool, error) {
		return strings.Contains(b.manager.Log(), `"Starting workers"`), nil
	})
	return err
}

// cpu is what the manager's process has used so far.
func (b *bench) cpu() (time.Duration, error) { return proc.CPUTime(b.manager.PID()) }

// settle waits until the manager does nothing any more.
func (b *bench) settle(ctx context.Context) error {
	const look, least = 500 * time.Millisecond, 20 * time.Millisecond
	last, err := b.cpu()
	if err != nil {
		return err
	}
	for idle := 0; idle < 8; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.manager.Done():
			return fmt.Errorf("the manager has ended:\n%s", tail(b.manager.Log()))
		case <-time.After(look):
		}
		now, err := b.cpu()
		if err != nil {
			return err
		}
		idle++
		if now-last > least {
			idle = 0
		}
		last = now
	}
	return nil
}

// memory prints what the manager has in memory.
func (b *bench) memory(name string) error {
	if !b.measures("memory") {
		return nil
	}
	now, highest, err := proc.Memory(b.manager.PID())
	if err != nil {
		return err
	}
	fmt.Printf("figure controller.rss.%s.mib %.1f MiB\n", name, mib(now))
	fmt.Printf("figure controller.rss.%s.peak.mib %.1f MiB\n", name, mib(highest))
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
