package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// The files below testdata/config are what templates wrote once, by format. They are never changed: a runner has to read
// every config of its major format.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/config/1.*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := runner.ParseConfig(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			argv, err := runner.CommandLine(c.Boot, runner.Placeholders(c))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(argv, "-S") {
				t.Errorf("QEMU would not wait to be set up: %q", argv)
			}
		})
	}
}

func TestPlaceholders(t *testing.T) {
	c := loadConfig(t, "minimal")
	argv, err := runner.CommandLine(c.Boot, runner.Placeholders(c))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hpet=off,type=<machine.type>,usb=off", "<accelerator.name>", "socket,fd=<fd:qmp>,id=qmp"} {
		if !slices.Contains(argv, want) {
			t.Errorf("command line has no %s: %q", want, argv)
		}
	}
}

func TestParseConfigFormat(t *testing.T) {
	cases := map[string]struct {
		reason string
		data   string
		ok     bool
	}{
		"NewerMinor":   {reason: "A minor version only adds fields.", data: `{"format": "1.7", "new": {"x": 1}}`, ok: true},
		"NewerMajor":   {reason: "Another major version may mean anything.", data: `{"format": "2.0"}`},
		"NoFormat":     {reason: "A document without a format is no config.", data: `{}`},
		"BrokenFormat": {reason: "Nor is one with something else.", data: `{"format": "one"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := runner.ParseConfig([]byte(tc.data))
			if tc.ok && err != nil || !tc.ok && !errors.Is(err, runner.ErrFormat) {
				t.Errorf("%s\nerror is %v", tc.reason, err)
			}
		})
	}
}
