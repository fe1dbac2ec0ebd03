package main

import (
	"strings"
	"testing"
)

// When nobody reads any more what it writes, as with `cuvee run … | head`, the guest is asked to power down, and nothing is left.
func TestRunReaderGone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// The firmware tells something on the serial port; nothing boots, so the guest does not power down.
	vm := strings.Replace(small("powerdownTimeout: 1"), "firmware: bios", "firmware: uefi", 1)
	run := h.startReading(t, 1, "-f", h.write(t, vm))
	run.ends(t, 4, "asking the guest to power down")
	if left := entries(t, h.runtime); len(left) != 0 {
		t.Errorf("left in the runtime directory: %v", left)
	}
}
