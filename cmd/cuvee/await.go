package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lookAgain is how often a VM is looked at that is waited for.
const lookAgain = time.Second

// errTimeout says that something was not done in time.
var errTimeout = errors.New("not in time")

// await waits until a wish has come true for VMs that it was written into.
func (c *cluster) await(cmd *cobra.Command, w wish, patched []*unstructured.Unstructured, timeout time.Duration) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	var errs []error
	for _, vm := range patched {
		errs = append(errs, c.awaitOne(ctx, cmd, w, vm))
	}
	return errors.Join(errs...)
}

func (c *cluster) awaitOne(ctx context.Context, cmd *cobra.Command, w wish, patched *unstructured.Unstructured) error {
	name := patched.GetNamespace() + "/" + patched.GetName()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	said := ""
	for {
		vm, err := c.vm(ctx, patched.GetName())
		switch {
		case errors.Is(err, errUnreachable):
			// An API server that is started anew is no reason to give up.
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && vm.GetUID() != patched.GetUID():
			return fmt.Errorf("%s: it was deleted, and another one made", name)
		case err == nil && w.done(vm, patched):
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", name, w.outcome)
			return nil
		case err == nil:
			state := stateOf(vm, patched)
			if stalled := conditionOf(vm.Object, "Stalled"); stalled.status == "True" && stalled.generation >= patched.GetGeneration() {
				return fmt.Errorf("%s: %s", name, state)
			}
			if state != said {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, state)
				said = state
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeout) {
				return fmt.Errorf("%s: %w; the last was: %s", name, errTimeout, said)
			}
			return fmt.Errorf("%s: not waited for any more; %s goes on", name, w.verb)
		case <-tick.C:
		}
	}
}

// stateOf is in a line how far the manager has come with a VM.
func stateOf(vm, patched *unstructured.Unstructured) string {
	ready := conditionOf(vm.Object, "Ready")
	switch {
	case ready.reason == "" || ready.generation < patched.GetGeneration():
		return "the manager has not seen it yet"
	case ready.message != "":
		return ready.reason + ": " + oneLine(ready.message)
	}
	return ready.reason
}
