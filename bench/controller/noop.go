package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// noop starts the manager anew, with a time after which it looks at each VM without a reason, and prints what that costs: first that it
// has to render all VMs, as it knows of none what it was, and then one round over VMs that it knows.
func (b *bench) noop(ctx context.Context) error {
	b.manager.Kill()
	w, err := b.writes()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.startManager(ctx, "--reconcile-interval="+b.resync.String()); err != nil {
		return err
	}
	end, err := b.allRendered(ctx)
	if err != nil {
		return err
	}
	if err := w.follow(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "bench: a manager that starts anew wrote %v\n", testserver.Count(w.all))
	fmt.Printf("figure controller.restart.%s.s %.1f s\n", short(b.vms), end.Sub(start).Seconds())
	if err := b.memory(short(b.vms) + ".restarted"); err != nil {
		return err
	}
	return b.round(ctx)
}

// round prints what one round over all VMs costs.
func (b *bench) round(ctx context.Context) error {
	w, err := b.writes()
	if err != nil {
		return err
	}
	before, err := b.cpu()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.resync):
	}
	after, err := b.cpu()
	if err != nil {
		return err
	}
	if err := w.follow(); err != nil {
		return err
	}
	for _, r := range w.all[:min(len(w.all), 10)] {
		fmt.Fprintln(os.Stderr, "bench: written for nothing:", r)
	}
	fmt.Printf("figure controller.noop.writes %d writes\n", len(w.all))
	fmt.Printf("figure controller.noop.cpu_s %.2f s\n", (after - before).Seconds())
	return nil
}

// allRendered waits until the manager has rendered all VMs, and returns when it was seen to have rendered the last.
func (b *bench) allRendered(ctx context.Context) (time.Time, error) {
	last, since := 0.0, time.Now()
	_, err := b.await(ctx, "all VMs are rendered", func() (bool, error) {
		renders, err := b.renders(ctx)
		if err != nil {
			return false, err
		}
		if renders != last {
			last, since = renders, time.Now()
		}
		// A VM may take more than one.
		const quiet = 5 * time.Second
		if last >= float64(b.made) && time.Since(since) > quiet {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(time.Second):
			return false, nil
		}
	})
	return since, err
}
