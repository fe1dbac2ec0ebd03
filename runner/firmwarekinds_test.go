package runner_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/firmware"
	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// A VM's firmware can be changed, there and back, on the same data directory: each kind starts with variables that are its own, and
// those stay from start to start of one kind.
func TestFirmwareKinds(t *testing.T) {
	with := map[string]string{"uefi": "", "secure": "secure-boot enrolled-keys requires-smm"}
	without := map[string]string{"uefi": "secure-boot requires-smm"}
	for _, q := range []firmware.Query{
		{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*", Without: []string{"secure-boot", "requires-smm"}},
		{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*", With: []string{"secure-boot", "enrolled-keys", "requires-smm"}},
	} {
		if _, err := firmware.Find(firmware.Directories, q); err != nil {
			t.Skipf("no firmware (Debian: ovmf): %v", err)
		}
	}
	disk, data := demodisk.Copy(t), t.TempDir()
	vars := filepath.Join(data, "fw-vars.fd")
	// start runs the VM until its console shows a text, and returns the variables that are there when the guest is started.
	start := func(kind, text string) []byte {
		t.Helper()
		c := linux(t, disk)
		c.Live.CurrentCPUs = 1
		c.Boot.DataDir = data
		withFirmware(c, kind, map[string]string{
			"descriptor": "uefi", "architecture": "x86_64", "machine": "pc-q35-*", "with": with[kind], "without": without[kind],
		})
		if kind == "uefi" {
			// Only firmware that runs in system management mode may write to flash that is secure.
			c.Boot.Args = c.Boot.Args[:len(c.Boot.Args)-1]
		}
		var begin []byte
		m := launch(t, c, func(s runner.State) {
			if s == runner.Booting {
				begin, _ = os.ReadFile(vars)
			}
		})
		m.shows(text)
		m.force()
		if end, err := m.wait(); err != nil || end != runner.EndForced {
			t.Errorf("%s: end is %q, error %v", kind, end, err)
		}
		if kept, err := os.ReadFile(vars + ".kind"); string(kept) != kind+"\n" {
			t.Errorf("variables are of kind %q, want %s (%v)", kept, kind, err)
		}
		return begin
	}
	current := func() []byte {
		t.Helper()
		content, err := os.ReadFile(vars)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}

	fresh := start("uefi", "BdsDxe: starting")
	written := current()
	if bytes.Equal(written, fresh) {
		t.Error("the firmware has written no variables")
	}
	if again := start("uefi", "BdsDxe: starting"); !bytes.Equal(again, written) {
		t.Error("another start does not have the variables of the one before")
	}
	if enrolled := start("secure", "Access Denied"); bytes.Equal(enrolled, fresh) {
		t.Error("secure boot starts with the variables of firmware without it")
	}
	if back := start("uefi", "BdsDxe: starting"); !bytes.Equal(back, fresh) {
		t.Error("after secure boot, UEFI does not start with fresh variables")
	}
}
