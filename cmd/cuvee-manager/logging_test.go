package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseLevel(t *testing.T) {
	cases := map[string]struct {
		text    string
		want    slog.Level
		said    bool
		problem string
	}{
		"Nothing":   {"# .level=FINE\n\nhandlers= java.util.logging.ConsoleHandler\n", 0, false, ""},
		"Root":      {".level = WARNING\n", slog.LevelWarn, true, ""},
		"Precise":   {"org.jdrupes.vmoperator.manager.level=FINE\n.level=SEVERE\n", slog.LevelDebug, true, ""},
		"Colon":     {".level: ALL\n", slog.LevelDebug, true, ""},
		"Off":       {".level=OFF\n", levelOff, true, ""},
		"Stranger":  {"org.jgrapes.level=FINEST\njava.util.logging.ConsoleHandler.level=ALL\n", 0, false, ""},
		"NoLevel":   {"\n.level=LOUD\n", 0, false, `line 2: .level is "LOUD", want SEVERE, `},
		"Emptiness": {".level=\n", 0, false, `line 1: .level is "", want SEVERE, `},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, said, err := parseLevel([]byte(tc.text))
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("the error is %v, want %q", err, tc.problem)
				}
				return
			}
			if err != nil || got != tc.want || said != tc.said {
				t.Errorf("it is %v, %v, %v; want %v, %v", got, said, err, tc.want, tc.said)
			}
		})
	}
}

// A level that cannot be read changes nothing, and is told once; without a file it is what it was.
func TestLevelFile(t *testing.T) {
	var out bytes.Buffer
	level := &slog.LevelVar{}
	f := &levelFile{path: filepath.Join(t.TempDir(), levelFileName), level: level, fallback: slog.LevelInfo, log: slog.New(newLog(&out, level))}
	for i, step := range []struct {
		text string
		want slog.Level
	}{{"", slog.LevelInfo}, {".level=WARNING\n", slog.LevelWarn}, {".level=nonsense\n", slog.LevelWarn}, {".level=nonsense\n", slog.LevelWarn}, {"#\n", slog.LevelInfo}} {
		if step.text != "" {
			if err := os.WriteFile(f.path, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.look()
		if got := level.Level(); got != step.want {
			t.Errorf("after step %d the level is %v, want %v", i, got, step.want)
		}
	}
	if n := strings.Count(out.String(), "cannot be read"); n != 1 {
		t.Errorf("the fault is told %d times:\n%s", n, out.String())
	}
}
