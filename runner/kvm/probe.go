// Package kvm tells whether a guest really runs under this machine's KVM.
//
// That /dev/kvm can be opened proves little. Some machines, virtual ones above all, offer a KVM that
// has no hardware to run a guest's kernel on, and interprets its instructions one by one. Firmware is
// small enough to get through. A stock Linux kernel takes minutes to unpack itself, so that it seems to hang,
// and then ends at the first instruction that the interpreter does not know. QEMU's own emulator (TCG)
// knows more and is many times faster.
//
// So the probe runs a guest: one virtual CPU with the state that a kernel has after its first
// instructions (64-bit mode, paging, privilege level 0), and a program of three steps.
//
//  1. Compare and exchange 16 bytes (cmpxchg16b). Each CPU that can run guests has this instruction, and
//     kernels use it to manage their memory, but KVM's interpreter leaves it to the CPU. Where there is
//     none, the guest ends here, within milliseconds.
//  2. Count down from four million. A CPU does this in about two milliseconds, under nested virtualization,
//     too: nothing in such a loop leaves the guest. An interpreter does not do it in the time given.
//  3. Set the timer of the local APIC, halt, and be woken by the interrupt. For this device registers in memory,
//     the interrupt controller in the host's kernel and delivery through the guest's interrupt table
//     have to work together, and no kernel does without.
//
// The interface to KVM is described in Documentation/virt/kvm/api.rst of the Linux sources, what the guest
// does in the Intel 64 and IA-32 Architectures Software Developer's Manual, volumes 2 and 3.
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

// ErrUnusable says that /dev/kvm can be opened, but that it does not run a guest as a CPU would.
var ErrUnusable = errors.New("/dev/kvm is there, but unusable")

// errTooSlow is why a guest ends that reaches the limit.
var errTooSlow = fmt.Errorf("not done in %v: this KVM has no CPU to run a guest on, or hangs", limit)

// errOpen marks the errors of a machine that has no KVM to call unusable.
var errOpen = errors.New("no KVM")

// Probe runs a tiny guest under KVM. It returns nil if the guest did all that it should. Otherwise its
// error, of one line, wraps that of opening /dev/kvm if it cannot be opened, the context's if that ended
// first, and ErrUnusable if the guest did not run.
//
// It returns within 300 milliseconds. A virtual CPU that KVM does not give back in that time is left
// behind, on a thread of its own.
func Probe(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runGuest(limited, kernelSteps) }()
	select {
	case err := <-done:
		return explain(ctx, err)
	case <-limited.Done():
	}
	select {
	case err := <-done:
		return explain(ctx, err)
	case <-time.After(grace):
		return explain(ctx, errTooSlow)
	}
}

// explain makes the error of a guest that of a probe. The end of the caller's context goes before all
// that may have followed from it.
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
