package firmware_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/firmware"
)

// shipped is what counts here of a descriptor that a distribution ships. Device and format are flash and raw if they are empty.
type shipped struct {
	name, code, vars, device, format, machine, features string
}

// distributions have the names, files and features of the descriptors for x86_64, as their packages of edk2 or QEMU ship them.
var distributions = map[string][]shipped{
	// edk2-ovmf of Fedora since 38: 4 MiB images as qcow2, the older 2 MiB ones raw.
	"Fedora": {
		{"30-edk2-ovmf-4m-qcow2-x64-sb-enrolled", "edk2/ovmf/OVMF_CODE_4M.secboot.qcow2", "edk2/ovmf/OVMF_VARS_4M.secboot.qcow2", "", "qcow2", "pc-q35-*", "acpi-s3 enrolled-keys requires-smm secure-boot verbose-dynamic"},
		{"31-edk2-ovmf-2m-raw-x64-sb-enrolled", "edk2/ovmf/OVMF_CODE.secboot.fd", "edk2/ovmf/OVMF_VARS.secboot.fd", "", "", "pc-q35-*", "acpi-s3 enrolled-keys requires-smm secure-boot verbose-dynamic"},
		{"40-edk2-ovmf-4m-qcow2-x64-sb", "edk2/ovmf/OVMF_CODE_4M.secboot.qcow2", "edk2/ovmf/OVMF_VARS_4M.qcow2", "", "qcow2", "pc-q35-*", "acpi-s3 requires-smm secure-boot verbose-dynamic"},
		{"41-edk2-ovmf-2m-raw-x64-sb", "edk2/ovmf/OVMF_CODE.secboot.fd", "edk2/ovmf/OVMF_VARS.fd", "", "", "pc-q35-*", "acpi-s3 requires-smm secure-boot verbose-dynamic"},
		{"50-edk2-ovmf-4m-qcow2-x64-nosb", "edk2/ovmf/OVMF_CODE_4M.qcow2", "edk2/ovmf/OVMF_VARS_4M.qcow2", "", "qcow2", "pc-q35-*", "acpi-s3 amd-sev amd-sev-es verbose-dynamic"},
		{"51-edk2-ovmf-2m-raw-x64-nosb", "edk2/ovmf/OVMF_CODE.fd", "edk2/ovmf/OVMF_VARS.fd", "", "", "pc-q35-*", "acpi-s3 amd-sev amd-sev-es verbose-dynamic"},
		{"60-edk2-ovmf-x64-amdsev", "edk2/ovmf/OVMF.amdsev.fd", "", "memory", "", "pc-q35-*", "amd-sev amd-sev-es amd-sev-snp verbose-dynamic"},
	},
	// edk2-ovmf of Arch: 4 MiB images only, none with enrolled keys.
	"Arch": {
		{"50-edk2-ovmf-x86_64-secure-4m", "edk2/x64/OVMF_CODE.secboot.4m.fd", "edk2/x64/OVMF_VARS.4m.fd", "", "", "pc-q35-*", "acpi-s3 requires-smm secure-boot verbose-dynamic"},
		{"60-edk2-ovmf-microvm-4m", "edk2/x64/MICROVM.4m.fd", "", "memory", "", "microvm", "verbose-dynamic"},
		{"60-edk2-ovmf-x86_64-4m", "edk2/x64/OVMF_CODE.4m.fd", "edk2/x64/OVMF_VARS.4m.fd", "", "", "pc-q35-*", "acpi-s3 amd-sev verbose-dynamic"},
	},
	// Those of QEMU itself, which Alpine has.
	"Alpine": {
		{"50-edk2-x86_64-secure", "qemu/edk2-x86_64-secure-code.fd", "qemu/edk2-i386-vars.fd", "", "", "pc-q35-*", "acpi-s3 amd-sev requires-smm secure-boot verbose-dynamic"},
		{"60-edk2-x86_64", "qemu/edk2-x86_64-code.fd", "qemu/edk2-i386-vars.fd", "", "", "pc-q35-*", "acpi-s3 amd-sev verbose-dynamic"},
	},
}

// On each distribution the queries of the templates find what can be used. Where there is none with enrolled keys the templates go on with files.
func TestDistributions(t *testing.T) {
	uefi := firmware.Query{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*", Without: []string{"requires-smm", "secure-boot"}}
	secure := firmware.Query{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*", With: []string{"requires-smm", "secure-boot", "enrolled-keys"}}
	cases := map[string]struct {
		distribution string
		query        firmware.Query
		code, vars   string
	}{
		"FedoraUEFI":   {"Fedora", uefi, "edk2/ovmf/OVMF_CODE.fd", "edk2/ovmf/OVMF_VARS.fd"},
		"FedoraSecure": {"Fedora", secure, "edk2/ovmf/OVMF_CODE.secboot.fd", "edk2/ovmf/OVMF_VARS.secboot.fd"},
		"ArchUEFI":     {"Arch", uefi, "edk2/x64/OVMF_CODE.4m.fd", "edk2/x64/OVMF_VARS.4m.fd"},
		"ArchSecure":   {"Arch", secure, "", ""},
		"AlpineUEFI":   {"Alpine", uefi, "qemu/edk2-x86_64-code.fd", "qemu/edk2-i386-vars.fd"},
		"AlpineSecure": {"Alpine", secure, "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			share := t.TempDir()
			for _, s := range distributions[tc.distribution] {
				s.install(t, share)
			}
			got, err := firmware.Find([]string{filepath.Join(share, "qemu/firmware")}, tc.query)
			if tc.code == "" {
				if !errors.Is(err, firmware.ErrNone) {
					t.Errorf("found %+v, error %v, want ErrNone", got, err)
				}
				return
			}
			want := firmware.Files{Code: filepath.Join(share, tc.code), Vars: filepath.Join(share, tc.vars)}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, files (-want +got):\n%s", err, diff)
			}
		})
	}
}

// install puts a descriptor and its files below a directory that stands for /usr/share.
func (s shipped) install(t *testing.T, share string) {
	t.Helper()
	image := func(path string) map[string]string {
		path = filepath.Join(share, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "image")
		format := s.format
		if format == "" {
			format = "raw"
		}
		return map[string]string{"filename": path, "format": format}
	}
	mapping := map[string]any{"device": "memory", "filename": filepath.Join(share, s.code)}
	if s.device == "" {
		mapping = map[string]any{"device": "flash", "executable": image(s.code), "nvram-template": image(s.vars)}
	}
	text, err := json.Marshal(map[string]any{
		"description": s.name, "interface-types": []string{"uefi"}, "mapping": mapping, "tags": []string{},
		"targets":  []any{map[string]any{"architecture": "x86_64", "machines": []string{s.machine}}},
		"features": strings.Fields(s.features),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(share, "qemu/firmware")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, s.name+".json"), string(text))
}
