package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Firmware is chosen so that a VM's variables fit it.
func TestFirmwareFitsVars(t *testing.T) {
	const absent = -1
	cases := map[string]struct {
		reason string
		vars   int
		kind   string
		want   string
		err    error
	}{
		"New":       {reason: "Without variables the first firmware is taken.", vars: absent, want: "large"},
		"SameSize":  {reason: "The first fits.", vars: 4, kind: "uefi\n", want: "large"},
		"OtherSize": {reason: "Variables from VM-Operator, without a kind, need the other build.", vars: 2, want: "small"},
		"OtherKind": {reason: "Variables of another kind are made anew anyway.", vars: 2, kind: "secure\n", want: "large"},
		"NoneFits":  {reason: "Rather no start than one without the VM's variables.", vars: 3, kind: "uefi\n", err: ErrVarsSize},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			write := func(name string, size int) {
				if err := os.WriteFile(path(name), make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("large", 4)
			write("small", 2)
			if tc.vars != absent {
				write("vars.fd", tc.vars)
			}
			if tc.kind != "" {
				if err := os.WriteFile(path("vars.fd.kind"), []byte(tc.kind), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cfg := &Config{
				Resolve: map[string]Choice{"fw": {Kind: KindFirmware, Alternatives: []map[string]string{
					{"code": path("large"), "vars": path("large")},
					{"code": path("small"), "vars": path("small")},
				}}},
				Boot: Boot{DataDir: dir, Firmware: &Firmware{Choice: "fw", Kind: "uefi", Vars: path("vars.fd")}},
			}
			v := newVM(cfg, Options{})
			err := v.resolve(context.Background())
			if !errors.Is(err, tc.err) {
				t.Fatalf("%s: error %v, want %v", tc.reason, err, tc.err)
			}
			if tc.err == nil && v.values.Resolve["fw"]["vars"] != path(tc.want) {
				t.Errorf("%s: chose %s, want %s", tc.reason, v.values.Resolve["fw"]["vars"], tc.want)
			}
		})
	}
}
