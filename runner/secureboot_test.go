package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/firmware"
	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// withFirmware gives the VM UEFI firmware that is found by QEMU's descriptors.
func withFirmware(c *runner.Config, kind string, alternative map[string]string) {
	vars := filepath.Join(c.Boot.DataDir, "fw-vars.fd")
	c.Resolve["firmware"] = runner.Choice{Kind: runner.KindFirmware, Keep: true, Alternatives: []map[string]string{alternative}}
	c.Boot.Firmware = &runner.Firmware{Choice: "firmware", Kind: kind, Vars: vars}
	for i, a := range c.Boot.Args {
		if a.Option == "machine" {
			c.Boot.Args[i].Keys["smm"], c.Boot.Args[i].Keys["pflash0"], c.Boot.Args[i].Keys["pflash1"] = true, "code", "vars"
		}
	}
	flash := func(node string, readOnly bool, filename any) runner.Arg {
		return runner.Arg{Option: "blockdev", JSON: map[string]any{
			"node-name": node, "driver": "raw", "read-only": readOnly,
			"file": map[string]any{"driver": "file", "filename": filename, "read-only": readOnly},
		}}
	}
	c.Boot.Args = append(c.Boot.Args,
		flash("code", true, map[string]any{"resolve": "firmware.code"}), flash("vars", false, vars),
		runner.Arg{Option: "global", Keys: map[string]any{"driver": "cfi.pflash01", "property": "secure", "value": "on"}},
	)
}

// Secure boot refuses what is not signed, and the variables that say so are this VM's own from then on.
func TestSecureBoot(t *testing.T) {
	secure := map[string]string{
		"descriptor": "uefi", "architecture": "x86_64", "machine": "pc-q35-*", "with": "secure-boot enrolled-keys requires-smm",
	}
	q := firmware.Query{
		Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*", With: []string{"secure-boot", "enrolled-keys", "requires-smm"},
	}
	if _, err := firmware.Find(firmware.Directories, q); err != nil {
		t.Skipf("no firmware with enrolled keys (Debian: ovmf): %v", err)
	}
	c := linux(t, demodisk.Copy(t))
	c.Live.CurrentCPUs = 1
	withFirmware(c, "secure", secure)
	m := boot(t, c)
	m.shows("Access Denied")
	if kept, err := os.ReadFile(filepath.Join(c.Boot.DataDir, "fw-vars.fd.kind")); string(kept) != "secure\n" {
		t.Errorf("variables are of kind %q (%v)", kept, err)
	}
}
