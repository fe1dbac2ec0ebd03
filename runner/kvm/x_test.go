package kvm

import (
	"context"
	"testing"
	"time"
)

func TestX(t *testing.T) {
	for _, n := range []uint32{1, 1000, 10000, 100000, loops} {
		ctx, c := context.WithTimeout(t.Context(), 250*time.Millisecond)
		t0 := time.Now()
		err := runGuest(ctx, program(n))
		t.Log(n, time.Since(t0), err)
		c()
	}
	for range 3 {
		t0 := time.Now()
		err := Probe(t.Context())
		t.Log(time.Since(t0), err)
	}
}
