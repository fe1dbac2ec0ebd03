package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// What the test's guest does after it has said "B" on port 0x402.
const (
	guestHalts     = 'h'
	guestPowersOff = 'o' // says "O" and powers off
	guestWaits     = 'p' // says "W", waits for the power button, powers off
	guestReboots   = 'r' // resets once, says "B" again and powers off
	guestFloods    = 'f' // says "x" 327680 times and powers off
)

// bootSector is a guest of 16 bit code for a q35 machine, in AT&T syntax.
var bootSector = []byte{
	// _start:
	0xfa,       // cli
	0x31, 0xc0, // xor %ax,%ax
	0x8e, 0xd8, // mov %ax,%ds
	0xba, 0x02, 0x04, // mov $0x402,%dx
	0xb0, 0x42, // mov $0x42,%al
	0xee,                   // out %al,(%dx)
	0x8a, 0x1e, 0xf4, 0x7d, // mov 0x7df4,%bl
	0x80, 0xfb, 0x72, // cmp $0x72,%bl
	0x74, 0x12, // je 26 <reboot>
	0x80, 0xfb, 0x70, // cmp $0x70,%bl
	0x74, 0x27, // je 40 <power>
	0x80, 0xfb, 0x6f, // cmp $0x6f,%bl
	0x74, 0x4a, // je 68 <off>
	0x80, 0xfb, 0x66, // cmp $0x66,%bl
	0x74, 0x35, // je 58 <flood>
	// halt:
	0xf4,       // hlt
	0xeb, 0xfd, // jmp 23 <halt>
	// reboot:
	0xb0, 0x51, // mov $0x51,%al
	0xe6, 0x70, // out %al,$0x70
	0xe4, 0x71, // in $0x71,%al
	0x84, 0xc0, // test %al,%al
	0x75, 0x38, // jne 68 <off>
	0xb0, 0x51, // mov $0x51,%al
	0xe6, 0x70, // out %al,$0x70
	0xb0, 0x01, // mov $0x1,%al
	0xe6, 0x71, // out %al,$0x71
	0xba, 0xf9, 0x0c, // mov $0xcf9,%dx
	0xb0, 0x06, // mov $0x6,%al
	0xee,       // out %al,(%dx)
	0xeb, 0xe3, // jmp 23 <halt>
	// power:
	0xba, 0x02, 0x06, // mov $0x602,%dx
	0xb8, 0x00, 0x01, // mov $0x100,%ax
	0xef,             // out %ax,(%dx)
	0xba, 0x02, 0x04, // mov $0x402,%dx
	0xb0, 0x57, // mov $0x57,%al
	0xee, // out %al,(%dx)
	// wait:
	0xba, 0x00, 0x06, // mov $0x600,%dx
	0xed,             // in (%dx),%ax
	0xa9, 0x00, 0x01, // test $0x100,%ax
	0x74, 0xf7, // je 4d <wait>
	0xeb, 0x10, // jmp 68 <off>
	// flood:
	0xba, 0x02, 0x04, // mov $0x402,%dx
	0xb0, 0x78, // mov $0x78,%al
	0x66, 0xb9, 0x00, 0x00, 0x05, 0x00, // mov $0x50000,%ecx
	// more:
	0xee,       // out %al,(%dx)
	0x66, 0x49, // dec %ecx
	0x75, 0xfb, // jne 63 <more>
	// off:
	0xba, 0x02, 0x04, // mov $0x402,%dx
	0xb0, 0x4f, // mov $0x4f,%al
	0xee,             // out %al,(%dx)
	0xba, 0x04, 0x06, // mov $0x604,%dx
	0xb8, 0x00, 0x20, // mov $0x2000,%ax
	0xef,       // out %ax,(%dx)
	0xeb, 0xac, // jmp 23 <halt>
}

// addGuest gives the VM a disk with the guest on it.
func addGuest(t *testing.T, c *runner.Config, action byte) {
	t.Helper()
	sector := make([]byte, 512)
	copy(sector, bootSector)
	// The code finds its action at 0x1f4, and the BIOS the mark of a boot sector at the end.
	sector[0x1f4], sector[510], sector[511] = action, 0x55, 0xaa
	path := filepath.Join(t.TempDir(), "guest.img")
	if err := os.WriteFile(path, append(sector, make([]byte, 1<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	addDisk(c, path)
}

// addDisk gives the VM a disk with the image of that path.
func addDisk(c *runner.Config, path string) {
	c.Boot.Args = append(c.Boot.Args,
		runner.Arg{Option: "blockdev", JSON: map[string]any{
			"node-name": "disk", "driver": "raw", "file": map[string]any{"driver": "file", "filename": path},
		}},
		runner.Arg{Option: "device", JSON: map[string]any{"driver": "virtio-blk-pci", "drive": "disk", "bootindex": 0}},
	)
}
