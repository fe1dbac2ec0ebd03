package runner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

func ref(s string) map[string]any { return map[string]any{"resolve": s} }
func fd(s string) map[string]any  { return map[string]any{"fd": s} }

var testValues = runner.Values{
	Resolve: map[string]map[string]string{
		"machine": {"type": "pc-q35-7.2"},
		"aio":     {"aio": "native", "direct": "on"},
		"odd":     {"comma": "a,b=c"},
	},
	FD: map[string]string{"qmp": "3", "net0": "5"},
}

func TestCommandLine(t *testing.T) {
	cases := map[string]struct {
		reason string
		arg    runner.Arg
		want   []string
	}{
		"Flag": {
			reason: "An option without an argument is one element.",
			arg:    runner.Arg{Option: "S"},
			want:   []string{"-S"},
		},
		"ValueAndKeys": {
			reason: "The value comes first, the keys are sorted, booleans are on and off, numbers plain.",
			arg: runner.Arg{Option: "machine", Value: "q35", Keys: map[string]any{
				"smm": true, "hpet": false, "max-ram": 17179869184.0, "accel": "tcg",
			}},
			want: []string{"-machine", "q35,accel=tcg,hpet=off,max-ram=17179869184,smm=on"},
		},
		"Commas": {
			reason: "A comma in a value is doubled, and so cannot begin a key.",
			arg:    runner.Arg{Option: "drive", Keys: map[string]any{"file": "/a,readonly=on", "id": "x"}},
			want:   []string{"-drive", "file=/a,,readonly=on,id=x"},
		},
		"ResolvedCommas": {
			reason: "What a choice stands for is escaped, too.",
			arg:    runner.Arg{Option: "drive", Keys: map[string]any{"file": ref("odd.comma")}},
			want:   []string{"-drive", "file=a,,b=c"},
		},
		"References": {
			reason: "References become what they stand for.",
			arg:    runner.Arg{Option: "chardev", Value: "socket", Keys: map[string]any{"fd": fd("qmp"), "id": ref("machine.type")}},
			want:   []string{"-chardev", "socket,fd=3,id=pc-q35-7.2"},
		},
		"KeyLeftOut": {
			reason: "A key without a value in the chosen alternative is left out.",
			arg:    runner.Arg{Option: "machine", Value: ref("machine.type"), Keys: map[string]any{"pflash0": ref("machine.code")}},
			want:   []string{"-machine", "pc-q35-7.2"},
		},
		"OptionLeftOut": {
			reason: "An option with nothing left would take the next option for its argument.",
			arg:    runner.Arg{Option: "machine", Value: ref("machine.none")},
			want:   nil,
		},
		"JSON": {
			reason: "JSON is sorted, a number keeps its digits, on and off of a choice are booleans, fds are text.",
			arg: runner.Arg{Option: "blockdev", JSON: map[string]any{
				"node-name": "a,b<c>", "aio": ref("aio.aio"), "cache": map[string]any{"direct": ref("aio.direct")},
				"list": []any{fd("net0"), 1, true}, "gone": ref("aio.gone"),
			}},
			want: []string{"-blockdev", `{"aio":"native","cache":{"direct":true},"list":["5",1,true],"node-name":"a,b<c>"}`},
		},
		"JSONWithKeyFD": {
			reason: "The argument itself is no reference, even with the only key fd.",
			arg:    runner.Arg{Option: "add-fd", JSON: map[string]any{"fd": "7"}},
			want:   []string{"-add-fd", `{"fd":"7"}`},
		},
		"Plain": {
			reason: "A kernel's command line is not parsed by QEMU, so it is not escaped.",
			arg:    runner.Arg{Option: "append", Value: "console=ttyS0,115200 root=/dev/vda"},
			want:   []string{"-append", "console=ttyS0,115200 root=/dev/vda"},
		},
		"LooksLikeOption": {
			reason: "A value that looks like an option is one all the same.",
			arg:    runner.Arg{Option: "name", Keys: map[string]any{"guest": "-S"}},
			want:   []string{"-name", "guest=-S"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := runner.CommandLine(runner.Boot{Args: []runner.Arg{tc.arg}}, testValues)
			if err != nil {
				t.Fatalf("%s\nCommandLine: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nargv (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCommandLineRefuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		arg    runner.Arg
		want   string
	}{
		"NoOption": {reason: "An element without a name is none.", arg: runner.Arg{Value: "x"}, want: "not a name"},
		"Dashes":   {reason: "The dash is the runner's.", arg: runner.Arg{Option: "-name"}, want: "not a name"},
		"Both": {
			reason: "JSON or keys.",
			arg:    runner.Arg{Option: "device", JSON: map[string]any{}, Keys: map[string]any{}},
			want:   "both",
		},
		"UnknownChoice": {
			reason: "A reference to nothing is named.",
			arg:    runner.Arg{Option: "machine", Keys: map[string]any{"type": ref("machin.type")}},
			want:   "key type: unknown reference: resolve machin.type",
		},
		"UnknownFD": {
			reason: "A reference to nothing is named.",
			arg:    runner.Arg{Option: "netdev", JSON: map[string]any{"fd": fd("net7"), "type": "tap"}},
			want:   "fd: unknown reference: fd net7",
		},
		"ValueWithKey": {
			reason: "QEMU would read a=b as a key where a value is meant.",
			arg:    runner.Arg{Option: "accel", Value: "thread=multi"},
			want:   "would be read as a key",
		},
		"CPUFeature": {
			reason: "-cpu does not know doubled commas.",
			arg:    runner.Arg{Option: "cpu", Value: "max,vmx"},
			want:   "takes no comma",
		},
		"Key": {
			reason: "A key that is more than one is refused.",
			arg:    runner.Arg{Option: "drive", Keys: map[string]any{"file=x,readonly": "on"}},
			want:   "make a key",
		},
		"NUL":    {reason: "No process takes this argument.", arg: runner.Arg{Option: "name", Value: "a\x00b"}, want: "NUL"},
		"Object": {reason: "An object is no value.", arg: runner.Arg{Option: "name", Value: map[string]any{"a": 1}}, want: "map"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := runner.CommandLine(runner.Boot{Args: []runner.Arg{tc.arg}}, testValues)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\nerror is %v with %q, want one with %q", tc.reason, err, got, tc.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	c := &runner.Config{
		Resolve: map[string]runner.Choice{"machine": {Alternatives: []map[string]string{{"a": "1"}, {"type": "q35"}}}},
		Boot: runner.Boot{Args: []runner.Arg{
			{Option: "machine", Value: ref("machine.type"), Keys: map[string]any{"x": ref("machine.typo")}},
			{Option: "blockdev", JSON: map[string]any{"file": map[string]any{"aio": ref("aio.aio")}}},
		}},
	}
	err := c.Check()
	if !errors.Is(err, runner.ErrReference) {
		t.Fatalf("error is %v, want ErrReference", err)
	}
	want := "unknown reference: resolve machine.typo\nunknown reference: resolve aio.aio"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
