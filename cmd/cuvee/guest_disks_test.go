//go:build guest

package main

import (
	"slices"
	"strings"
	"testing"
)

// udev makes a link with the name that the VirtualMachine gives a disk.
func testDisksHaveNames(t *testing.T, g *guest) {
	got := strings.Fields(g.shell(t, "ls /dev/disk/by-id"))
	for _, want := range []string{"virtio-system-disk", "virtio-system-disk-part2", "virtio-data-disk"} {
		if !slices.Contains(got, want) {
			t.Errorf("/dev/disk/by-id has no %s, but %v", want, got)
		}
	}
	if got := g.shell(t, "lsblk -nbdo SIZE /dev/disk/by-id/virtio-data-disk"); got != "67108864" {
		t.Errorf("the disk data has %q bytes, want 64Mi", got)
	}
}
