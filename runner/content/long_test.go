//go:build long

package content_test

import "testing"

// TestLongFillKilled is TestFillKilled for long enough to hit every point.
func TestLongFillKilled(t *testing.T) { killFills(t, 100) }
