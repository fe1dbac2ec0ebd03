package main

import (
	"os"
	"path/filepath"
	"testing"
)

// panics is a boot sector that tells QEMU, by the port of pvpanic, that the guest's kernel has failed.
var panics = []byte{
	0xba, 0x05, 0x05, // mov $0x505,%dx
	0xb0, 0x01, // mov $0x1,%al
	0xee,       // out %al,(%dx)
	0xf4,       // hlt
	0xeb, 0xfd, // jmp 6
}

// A guest that panics has not shut down. Its VM has pvpanic from a site's file.
func TestRunPanics(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	site := filepath.Join(h.dir, "site")
	if err := os.Mkdir(site, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(site, "panic.cue"), []byte("package vm\n\nqemu: device: pvpanic: driver: \"pvpanic\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sector := make([]byte, 1<<20)
	copy(sector, panics)
	sector[510], sector[511] = 0x55, 0xaa
	disk := filepath.Join(h.dir, "guest.raw")
	if err := os.WriteFile(disk, sector, 0o600); err != nil {
		t.Fatal(err)
	}
	run := h.start(t, "-v", "-f", h.write(t, small("")), "--site", site, "--disk", "system="+disk)
	run.ends(t, 6, "panicked")
}
