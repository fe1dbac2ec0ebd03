package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What QEMU tells the firmware, and by way of it the guest, is what VM-Operator's QEMU tells: the SMBIOS tables, the map of
// the memory, the boot order, the number of CPUs. Only the ACPI tables differ, as they list the ports for later devices.
func TestMovedGuestFindsItsFirmwareTables(t *testing.T) {
	if !isolates() {
		t.Skip("two QEMUs with the same port need network namespaces (root, or user namespaces)")
	}
	for _, name := range []string{"Seed", "SeveralNICs", "CDROMs", "NoNIC"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots() <- struct{}{}
			defer func() { <-slots() }()
			h := moved[name]
			m := place(t, parse(t, name, h.customResource()))
			qtest := []string{"-qtest", "chardev:" + extraFD, "-qtest-log", "none"}
			argv, fds := h.upstream(t, m.dir, qtest...)
			theirs := firmwareConfig(t, startQEMU(t, argv, fds))
			ours := firmwareConfig(t, startOurs(t, m, qtest...))
			if len(theirs["etc/smbios/smbios-tables"]) == 0 {
				t.Errorf("no SMBIOS tables among %v", sorted(theirs))
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("firmware configuration (-VM-Operator +ours):\n%s", diff)
			}
		})
	}
}

// firmwareItems are those of QEMU's firmware configuration that are no files
// (https://www.qemu.org/docs/master/specs/fw_cfg.html).
var firmwareItems = map[string]struct{ key, size int }{
	"uuid": {0x02, 16}, "RAM size": {0x03, 8}, "CPUs": {0x05, 2}, "boot menu": {0x0e, 2}, "CPUs at most": {0x0f, 2},
}

// firmwareConfig reads QEMU's firmware configuration as a guest would, through the ports, by QEMU's qtest protocol.
func firmwareConfig(t *testing.T, q *qemu) map[string]string {
	t.Helper()
	r := &portReader{t: t, conn: q.ends[extraFD], replies: bufio.NewScanner(q.ends[extraFD])}
	found := make(map[string]string)
	for name, item := range firmwareItems {
		found[name] = hex.Dump(r.read(item.key, item.size))
	}
	const directory = 0x19
	n := int(binary.BigEndian.Uint32(r.read(directory, 4)))
	entries := r.read(directory, 4+64*n)[4:]
	for ; len(entries) > 0; entries = entries[64:] {
		size, key := int(binary.BigEndian.Uint32(entries)), int(binary.BigEndian.Uint16(entries[4:]))
		name := string(bytes.TrimRight(entries[8:64], "\x00"))
		switch name {
		case "etc/acpi/tables", "etc/acpi/rsdp", "etc/table-loader":
			found[name] = "there"
		default:
			found[name] = hex.Dump(r.read(key, size))
		}
	}
	return found
}

type portReader struct {
	t       *testing.T
	conn    io.Writer
	replies *bufio.Scanner
}

// read selects an item and reads bytes of it.
func (r *portReader) read(key, size int) []byte {
	r.t.Helper()
	commands := fmt.Sprintf("outw 0x510 %#x\n", key) + strings.Repeat("inb 0x511\n", size)
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(r.conn, commands)
		written <- err
	}()
	data := make([]byte, 0, size)
	for i := range 1 + size {
		if !r.replies.Scan() {
			r.t.Fatalf("qtest connection ended: %v", r.replies.Err())
		}
		var b byte
		if _, err := fmt.Sscanf(r.replies.Text(), "OK 0x%x", &b); err == nil {
			data = append(data, b)
		} else if i > 0 || r.replies.Text() != "OK" {
			r.t.Fatalf("qtest: %q", r.replies.Text())
		}
	}
	if err := <-written; err != nil {
		r.t.Fatal(err)
	}
	return data
}
