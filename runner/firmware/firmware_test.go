package firmware_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/firmware"
)

// describe writes a descriptor of files of that name in the directory, and makes these.
func describe(t *testing.T, dir, name, features string) {
	t.Helper()
	text := fmt.Sprintf(`{
		"description": "x", "interface-types": ["uefi"], "tags": [],
		"mapping": {"device": "flash",
			"executable": {"filename": "%[1]s.code", "format": "raw"}, "nvram-template": {"filename": "%[1]s.vars", "format": "raw"}},
		"targets": [{"architecture": "x86_64", "machines": ["pc-i440fx-*", "pc-q35-*"]}],
		"features": [%[2]s]
	}`, filepath.Join(dir, name), features)
	write(t, filepath.Join(dir, name+".json"), text)
	write(t, filepath.Join(dir, name+".code"), "code")
	write(t, filepath.Join(dir, name+".vars"), "vars")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func change(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(data), from, to, 1))
}

func TestFind(t *testing.T) {
	uefi := firmware.Query{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-*"}
	secure := uefi
	secure.With = []string{"secure-boot", "enrolled-keys"}
	cases := map[string]struct {
		reason string
		query  firmware.Query
		change func(t *testing.T, share, etc string)
		want   string
	}{
		"First": {
			reason: "Descriptors count in the order of their names.",
			query:  uefi, want: "share/40-secure",
		},
		"Feature": {
			reason: "Features that are asked for have to be there.",
			query:  secure, want: "share/40-secure",
		},
		"WithoutFeature": {
			reason: "Features that are not wanted exclude a firmware.",
			query:  firmware.Query{Interface: "uefi", Architecture: "x86_64", Machine: "pc-q35-7.2", Without: []string{"secure-boot"}},
			want:   "share/60-plain",
		},
		"Site": {
			reason: "What the administrator put in /etc takes the place of the distribution's.",
			query:  secure, change: func(t *testing.T, _, etc string) { describe(t, etc, "40-secure", `"secure-boot", "enrolled-keys"`) },
			want: "etc/40-secure",
		},
		"Masked": {
			reason: "An empty file masks a descriptor.",
			query:  uefi, change: func(t *testing.T, _, etc string) { write(t, filepath.Join(etc, "40-secure.json"), "") },
			want: "share/60-plain",
		},
		"NotThere": {
			reason: "A firmware whose file is missing is not chosen.",
			query:  uefi, change: func(t *testing.T, share, _ string) { os.Remove(filepath.Join(share, "40-secure.vars")) },
			want: "share/60-plain",
		},
		"Format": {
			reason: "Images of another format than raw are left out.",
			query:  uefi, change: func(t *testing.T, share, _ string) { change(t, filepath.Join(share, "40-secure.json"), "raw", "qcow2") },
			want: "share/60-plain",
		},
		"Broken": {
			reason: "A descriptor that cannot be read does not hide the others.",
			query:  uefi, change: func(t *testing.T, share, _ string) { write(t, filepath.Join(share, "40-secure.json"), "{") },
			want: "share/60-plain",
		},
		"Machine": {
			reason: "The firmware has to run on the machine type.",
			query:  firmware.Query{Interface: "uefi", Architecture: "x86_64", Machine: "microvm"},
		},
		"Architecture": {
			reason: "And on the architecture.",
			query:  firmware.Query{Interface: "uefi", Architecture: "aarch64", Machine: "pc-q35-*"},
		},
		"Interface": {
			reason: "The interface is the one asked for.",
			query:  firmware.Query{Interface: "bios", Architecture: "x86_64", Machine: "pc-q35-*"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			share, etc := filepath.Join(top, "share"), filepath.Join(top, "etc")
			for _, dir := range []string{share, etc} {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			describe(t, share, "40-secure", `"secure-boot", "enrolled-keys", "requires-smm"`)
			describe(t, share, "60-plain", `"acpi-s3"`)
			if tc.change != nil {
				tc.change(t, share, etc)
			}
			got, err := firmware.Find([]string{share, etc}, tc.query)
			if tc.want == "" {
				if !errors.Is(err, firmware.ErrNone) {
					t.Errorf("%s\nfound %+v, error %v, want ErrNone", tc.reason, got, err)
				}
				return
			}
			want := firmware.Files{Code: filepath.Join(top, tc.want+".code"), Vars: filepath.Join(top, tc.want+".vars")}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s\nerror %v, files (-want +got):\n%s", tc.reason, err, diff)
			}
		})
	}
}
