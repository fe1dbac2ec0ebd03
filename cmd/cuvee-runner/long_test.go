//go:build long

package main

import (
	"testing"
	"time"
)

// A hundred rude clients for a minute.
func TestLongRudeClients(t *testing.T) { stormFor(t, time.Minute) }
