package main

import (
	"context"
	"fmt"
	"time"
)

// measureUserland boots Linux in VMs, one after the other.
func (b *bench) measureUserland(ctx context.Context, n int) error {
	var took []time.Duration
	for _, name := range names("linux", n) {
		if err := b.makeVolumes(ctx, claims(name)[0]); err != nil {
			return err
		}
		starts, err := b.start(ctx, linuxMoments, []string{name}, func(name string) ([]map[string]any, error) {
			return []map[string]any{linux(name)}, nil
		})
		if err != nil {
			return err
		}
		took = append(took, starts[name].took())
		if err := b.remove(ctx, []string{name}); err != nil {
			return err
		}
	}
	if n > 0 {
		fmt.Printf("figure cluster.userland.p50.ms %.0f ms\n", ms(quantile(took, .5)))
	}
	return nil
}
