package runner_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// FuzzCommandLine tries to smuggle an option or a key into QEMU's command line by a value.
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{"", "x", ",", ",,", "a,b=c", "=", "-S", "x,,y", `"},{"a":"b`, "\n-S", "\x00", "é,=", `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys := map[string]any{"file": text, "id": ref("a.x"), "last": text}
		values := runner.Values{Resolve: map[string]map[string]string{"a": {"x": text}}}
		checkKeys(t, values, runner.Arg{Option: "drive", Value: text, Keys: keys}, []string{text, "file", "id", "last"})
		checkKeys(t, values, runner.Arg{Option: "drive", Keys: keys}, []string{"file", "id", "last"})
		checkKeys(t, values, runner.Arg{Option: "machine", Value: ref("a.x")}, []string{text})
		checkCPU(t, values, text)
		checkJSON(t, values, text)
	})
}

// checkKeys takes the argument apart the way QEMU does. Refusing a value is all right.
func checkKeys(t *testing.T, values runner.Values, arg runner.Arg, want []string) {
	t.Helper()
	argv, err := runner.CommandLine(runner.Boot{Args: []runner.Arg{arg}}, values)
	if err != nil {
		return
	}
	if len(argv) != 2 {
		t.Fatalf("%q has %d elements, want 2", argv, len(argv))
	}
	if got := qemuKeys(argv[1]); !slices.Equal(got, want) {
		t.Errorf("%q has the keys %q, want %q", argv[1], got, want)
	}
}

// qemuKeys reads the keys of an argument like QEMU's get_opt_name and get_opt_value: a key ends at an equals sign or
// comma, a value at a comma that is not doubled. A first part without a key is a value.
func qemuKeys(s string) []string {
	var keys []string
	for first := true; first || s != ""; first = false {
		var key string
		if i := strings.IndexAny(s, "=,"); i >= 0 && s[i] == '=' {
			key = s[:i]
			_, s = qemuValue(s[i+1:])
		} else {
			key, s = qemuValue(s)
		}
		keys = append(keys, key)
	}
	return keys
}

func qemuValue(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == ',' {
			if i+1 >= len(s) || s[i+1] != ',' {
				return b.String(), s[i+1:]
			}
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// checkCPU takes -cpu apart, whose parser cuts at each comma.
func checkCPU(t *testing.T, values runner.Values, text string) {
	t.Helper()
	arg := runner.Arg{Option: "cpu", Value: text, Keys: map[string]any{"x": text}}
	argv, err := runner.CommandLine(runner.Boot{Args: []runner.Arg{arg}}, values)
	if err == nil && strings.Count(argv[1], ",") != 1 {
		t.Errorf("%q has other features than x", argv[1])
	}
}

func checkJSON(t *testing.T, values runner.Values, text string) {
	t.Helper()
	arg := runner.Arg{Option: "device", JSON: map[string]any{"driver": text, "id": ref("a.x"), "sub": map[string]any{"a": text}}}
	argv, err := runner.CommandLine(runner.Boot{Args: []runner.Arg{arg}}, values)
	if err != nil {
		t.Fatal(err)
	}
	if len(argv) != 2 {
		t.Fatalf("%q has %d elements, want 2", argv, len(argv))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(argv[1]), &got); err != nil {
		t.Fatal(err)
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{"driver", "id", "sub"}) {
		t.Errorf("%s has the keys %q", argv[1], keys)
	}
}
