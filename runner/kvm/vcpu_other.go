//go:build !(linux && amd64)

package kvm

import (
	"context"
	"errors"
	"fmt"
)

// runGuest has no KVM to run an x86 guest with.
func runGuest(context.Context, []step) error {
	return fmt.Errorf("%w for x86-64 guests: %w", errOpen, errors.ErrUnsupported)
}
