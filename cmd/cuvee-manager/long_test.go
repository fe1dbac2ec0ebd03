//go:build long

package main

import "testing"

// TestLongKilled kills the manager at random points of 300 applies.
func TestLongKilled(t *testing.T) { killed(t, 100, 24) }
