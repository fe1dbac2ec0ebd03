package main

import (
	"context"
	"fmt"
	"time"
)

// reload edits the site's template so that an object of each VM becomes another one, and prints the time until all are applied. The
// manager lets the file rest for two seconds, and renders every VM with it before it takes it.
func (b *bench) reload(ctx context.Context) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	w, err := b.writes()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.template("package vm\n\nobjects: statefulSet: metadata: labels: \"example.com/edited\": \"yes\"\n"); err != nil {
		return err
	}
	end, err := b.await(ctx, "the edited object of each VM is applied", func() (bool, error) {
		err := w.follow()
		return len(w.objects) >= b.made, err
	})
	if err != nil {
		return err
	}
	fmt.Printf("figure controller.reload.%s.s %.1f s\n", short(b.vms), end.Sub(start).Seconds())
	return nil
}
