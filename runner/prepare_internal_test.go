package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFirmwareVars(t *testing.T) {
	const absent = "(absent)"
	cases := map[string]struct {
		reason     string
		vars, kind string
		wantVars   string
	}{
		"First":       {reason: "The first start copies the template.", vars: absent, kind: absent, wantVars: "template"},
		"SameKind":    {reason: "Variables that the guest has written stay.", vars: "guest's", kind: "uefi\n", wantVars: "guest's"},
		"OtherKind":   {reason: "Variables of another firmware are of no use.", vars: "old", kind: "secure\n", wantVars: "template"},
		"VMOperator":  {reason: "Variables without a kind come from VM-Operator, and stay.", vars: "theirs", kind: absent, wantVars: "theirs"},
		"LostVars":    {reason: "Variables that are gone are made anew.", vars: absent, kind: "uefi\n", wantVars: "template"},
		"AbortedCopy": {reason: "A crash before the kind was written does no harm.", vars: "template", kind: "secure\n", wantVars: "template"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			for name, content := range map[string]string{"template.fd": "template", "vars.fd": tc.vars, "vars.fd.kind": tc.kind} {
				if content == absent {
					continue
				}
				if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v := newVM(&Config{Boot: Boot{Firmware: &Firmware{Choice: "fw", Kind: "uefi", Vars: path("vars.fd")}}}, Options{})
			v.values.Resolve = map[string]map[string]string{"fw": {"vars": path("template.fd")}}
			if err := v.makeFirmwareVars(); err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			got := map[string]string{}
			for _, name := range []string{"vars.fd", "vars.fd.kind"} {
				data, err := os.ReadFile(path(name))
				if err != nil {
					t.Fatal(err)
				}
				got[name] = string(data)
			}
			if diff := cmp.Diff(map[string]string{"vars.fd": tc.wantVars, "vars.fd.kind": "uefi\n"}, got); diff != "" {
				t.Errorf("%s\nfiles (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestImage(t *testing.T) {
	cases := map[string]struct {
		reason string
		have   int64
		want   int64
	}{
		"Made":      {reason: "An image that is not there is made.", have: -1, want: 4 << 20},
		"Grown":     {reason: "A smaller one is grown.", have: 1 << 20, want: 4 << 20},
		"NotShrunk": {reason: "A larger one stays, or data would be lost.", have: 8 << 20, want: 8 << 20},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			if tc.have >= 0 {
				if err := os.WriteFile(path, make([]byte, tc.have), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if err := (Image{Path: path, Size: 4 << 20}).make(nil); err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() != tc.want {
				t.Errorf("%s\nsize is %d, want %d", tc.reason, info.Size(), tc.want)
			}
		})
	}
	t.Run("NoFile", func(t *testing.T) {
		if err := (Image{Path: t.TempDir(), Size: 1}).make(nil); !errors.Is(err, ErrNoImage) {
			t.Errorf("error is %v, want ErrNoImage", err)
		}
	})
}

func TestChoose(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "code.fd")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	accelerator := Choice{Kind: KindAccelerator, Alternatives: []map[string]string{{"name": "kvm", "cpu": "host"}, {"name": "tcg", "cpu": "max"}}}
	noKVM := func(context.Context) error { return errors.New("guests hang") }
	opened := map[string]string{"name": "kvm", "probe": "off"}
	if kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		opened = map[string]string{"name": "tcg"}
	} else {
		kvm.Close()
	}
	cases := map[string]struct {
		reason string
		choice Choice
		probe  func(context.Context) error
		want   map[string]string
		err    error
	}{
		"KVM": {
			reason: "The caller's word on KVM counts.",
			choice: accelerator, probe: func(context.Context) error { return nil },
			want: map[string]string{"name": "kvm", "cpu": "host"},
		},
		"TCG": {
			reason: "Without KVM the next alternative comes.",
			choice: accelerator, probe: noKVM, want: map[string]string{"name": "tcg", "cpu": "max"},
		},
		"OnlyKVM": {
			reason: "Nothing is made up where no alternative works.",
			choice: Choice{Kind: KindAccelerator, Alternatives: accelerator.Alternatives[:1]}, probe: noKVM, err: ErrNoAlternative,
		},
		"KVMUnprobed": {
			reason: "Who asks for no probe gets KVM where it can be opened.",
			choice: Choice{Kind: KindAccelerator, Alternatives: []map[string]string{{"name": "kvm", "probe": "off"}, {"name": "tcg"}}},
			probe:  noKVM, want: opened,
		},
		"Firmware": {
			reason: "Firmware has to be there with its variables.",
			choice: Choice{Kind: KindFirmware, Alternatives: []map[string]string{{"code": file, "vars": file + ".none"}, {"code": file, "vars": file}}},
			want:   map[string]string{"code": file, "vars": file},
		},
		"NativeNeedsDirect": {
			reason: "QEMU refuses native AIO with the page cache.",
			choice: Choice{Kind: KindAIO, Path: file, Alternatives: []map[string]string{{"aio": "native", "direct": "off"}, {"aio": "threads", "direct": "off"}}},
			want:   map[string]string{"aio": "threads", "direct": "off"},
		},
		"NoDirect": {
			reason: "A file system that refuses direct I/O gets another alternative.",
			choice: Choice{Kind: KindAIO, Path: "/proc/version", Alternatives: []map[string]string{{"aio": "native", "direct": "on"}, {"aio": "threads", "direct": "off"}}},
			want:   map[string]string{"aio": "threads", "direct": "off"},
		},
		"Nothing":     {reason: "A choice of nothing is none.", choice: Choice{Kind: KindFirmware}, err: ErrNoAlternative},
		"UnknownKind": {reason: "The kinds are a closed list.", choice: Choice{Kind: "cpu", Alternatives: []map[string]string{{}}}, err: ErrNoAlternative},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := newVM(&Config{Resolve: map[string]Choice{"x": tc.choice}, Boot: Boot{DataDir: t.TempDir()}}, Options{ProbeKVM: tc.probe})
			err := v.resolve(t.Context())
			if !errors.Is(err, tc.err) {
				t.Fatalf("%s\nerror is %v, want %v", tc.reason, err, tc.err)
			}
			if diff := cmp.Diff(tc.want, v.values.Resolve["x"]); diff != "" {
				t.Errorf("%s\nchosen (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestKept(t *testing.T) {
	const keptAsB = `{"fw": {"from": {"code": "b"}, "values": {"code": "b"}}}`
	cases := map[string]struct {
		reason       string
		kept         string
		forget       bool
		alternatives []string
		there        []string
		want         string
	}{
		"First":     {reason: "Without anything kept the first alternative is taken.", alternatives: []string{"a", "b"}, there: []string{"a", "b"}, want: "a"},
		"Kept":      {reason: "What was chosen once is chosen again.", kept: keptAsB, alternatives: []string{"a", "b"}, there: []string{"a", "b"}, want: "b"},
		"Forget":    {reason: "Only what the config wants kept is.", kept: keptAsB, forget: true, alternatives: []string{"a", "b"}, there: []string{"a", "b"}, want: "a"},
		"Gone":      {reason: "What does not work any more cannot be kept.", kept: keptAsB, alternatives: []string{"a", "b"}, there: []string{"a"}, want: "a"},
		"NotOffers": {reason: "What the config does not offer any more is not kept.", kept: keptAsB, alternatives: []string{"a"}, there: []string{"a", "b"}, want: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if tc.kept != "" {
				writeTestFile(t, keptFile, tc.kept)
			}
			for _, f := range tc.there {
				writeTestFile(t, f, "")
			}
			c := Choice{Kind: KindFirmware, Keep: !tc.forget}
			for _, a := range tc.alternatives {
				c.Alternatives = append(c.Alternatives, map[string]string{"code": a})
			}
			v := newVM(&Config{Resolve: map[string]Choice{"fw": c}, Boot: Boot{DataDir: "."}}, Options{})
			if err := v.resolve(t.Context()); err != nil {
				t.Fatalf("%s\n%v", tc.reason, err)
			}
			if got := v.values.Resolve["fw"]["code"]; got != tc.want {
				t.Errorf("%s\nchosen is %s, want %s", tc.reason, got, tc.want)
			}
			if tc.forget {
				return
			}
			if err := v.kept.save(); err != nil {
				t.Fatal(err)
			}
			again, err := readKept(".")
			if err != nil {
				t.Fatal(err)
			}
			if got := again.choices["fw"].Values["code"]; got != tc.want {
				t.Errorf("%s\nkept is %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// Choices that cannot be read are not made anew: that might change the guest's hardware.
func TestKeptDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	writeTestFile(t, keptFile, `{"fw":`)
	v := newVM(&Config{Boot: Boot{DataDir: "."}}, Options{})
	if err := v.resolve(t.Context()); err == nil {
		t.Error("damaged choices were ignored")
	}
}

// The UUID of a VM that VM-Operator has started stays.
func TestUUIDKept(t *testing.T) {
	t.Chdir(t.TempDir())
	c := Choice{Kind: KindUUID, Keep: true, Alternatives: []map[string]string{{"uuid": "new"}}}
	v := newVM(&Config{Resolve: map[string]Choice{"uuid": c}, Boot: Boot{DataDir: "."}}, Options{})
	if err := v.resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := v.values.Resolve["uuid"]["uuid"]; got != "new" {
		t.Errorf("UUID is %q, want the config's", got)
	}
	writeTestFile(t, uuidFile, "theirs\n")
	if err := v.resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := v.values.Resolve["uuid"]["uuid"]; got != "theirs" {
		t.Errorf("UUID is %q, want the kept one", got)
	}
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
