package guestagent

import (
	"context"
	"fmt"
	"time"
)

// thawTimeout is how long a thaw may take that nobody has asked for.
const thawTimeout = 10 * time.Second

// Freeze writes back and freezes all of the guest's file systems, and returns how many they are (guest-fsfreeze-freeze). While
// they are frozen the agent refuses most other commands. If it fails, or the context ends meanwhile, the guest is thawed again, as
// far as its agent answers: a guest that is late may be frozen after all.
func (c *Client) Freeze(ctx context.Context) (int, error) {
	var n int
	err := c.execute(ctx, "guest-fsfreeze-freeze", &n)
	if err == nil {
		return n, nil
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTimeout)
	defer cancel()
	if _, thawErr := c.Thaw(again); thawErr != nil {
		return 0, fmt.Errorf("%w; and cannot thaw: %w", err, thawErr)
	}
	return 0, err
}

// Thaw ends a Freeze, and returns the number of file systems that were frozen (guest-fsfreeze-thaw). It does no harm where
// nothing is frozen.
func (c *Client) Thaw(ctx context.Context) (int, error) {
	var n int
	err := c.execute(ctx, "guest-fsfreeze-thaw", &n)
	return n, err
}

// Frozen tells whether the guest's file systems are frozen (guest-fsfreeze-status).
func (c *Client) Frozen(ctx context.Context) (bool, error) {
	var status string
	err := c.execute(ctx, "guest-fsfreeze-status", &status)
	return status == "frozen", err
}
