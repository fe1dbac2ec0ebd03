// Package kvm tells whether a guest really runs under this machine's KVM.
//
// That /dev/kvm can be opened proves little. Some machines, virtual ones above all, offer a KVM that
// has no hardware to run a guest's kernel on and interprets its instructions one by one. Firmware, being
// small, gets through; a stock Linux kernel runs a few hundred times slower than on a CPU, and looks as
// if it hung while it unpacks itself. QEMU's own emulator (TCG) is much faster than that.
//
// So the probe runs a guest: one virtual CPU with the state that a kernel has after its first
// instructions (64-bit mode, paging, privilege level 0), and a program of two steps.
//
//  1. It counts down from four million in a loop. A CPU does this in about two milliseconds, under
//     nested virtualization, too: such a loop has nothing that leaves the guest. An interpreter does not do
//     it within the time given.
//  2. It sets the timer of its local APIC, halts, and is woken by the interrupt. A kernel cannot do without,
//     and here mapped device registers, the interrupt controller in the host's kernel and the delivery
//     through the guest's interrupt table have to work together.
//
// The interface to KVM is described in Documentation/virt/kvm/api.rst of the Linux sources, what the guest
// does in the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3.
package kvm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// limit is how long the guest may take. It is far above what a CPU needs, so that a busy host passes.
	limit = 250 * time.Millisecond
	// grace is how long KVM may take to give the virtual CPU back after that.
	grace = 50 * time.Millisecond
)

// ErrUnusable says that KVM can be opened, but that no guest runs under it that is worth having.
var ErrUnusable = errors.New("/dev/kvm is there, but unusable")

// Probe runs a tiny guest under KVM. It returns nil if the guest did all that it should, and otherwise an
// error of one line: an *os.PathError if /dev/kvm cannot be opened, one that wraps ErrUnusable if the guest did not
// run, and the context's if that ended first. It returns within 300 milliseconds; a virtual CPU that KVM
// does not give back in that time is left behind on a thread of its own.
func Probe(ctx context.Context) error {
	guestCtx, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runGuest(guestCtx, program(loops)) }()
	select {
	case err := <-done:
		return explain(ctx, err)
	case <-guestCtx.Done():
	}
	select {
	case err := <-done:
		return explain(ctx, err)
	case <-time.After(grace):
		return explain(ctx, fmt.Errorf("it keeps a virtual CPU that should stop: %w", errTooSlow))
	}
}

// errTooSlow is the cause of a guest's end by the limit.
var errTooSlow = fmt.Errorf("not done in %v: this KVM interprets a guest's kernel instead of running it on the CPU", limit)

// explain makes a guest's error the caller's: the caller's context goes before what followed from its end.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("probe /dev/kvm: %w", ctx.Err())
	case errors.Is(err, errOpen):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}
