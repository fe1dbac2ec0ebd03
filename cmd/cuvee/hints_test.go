package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every hint is about a reason that there is, and every reason why a VM is not ready has one.
func TestHints(t *testing.T) {
	word := regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	known := map[string]bool{}
	for _, file := range []string{"../../docs/controller.md", "../../docs/status.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range word.FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	for reason, hint := range hints {
		if !known[reason] {
			t.Errorf("%s is no reason that the documents have", reason)
		}
		if hint == "" || strings.HasSuffix(hint, ".") || strings.Contains(hint, "\n") {
			t.Errorf("%s: the hint is %q, want a part of a line", reason, hint)
		}
	}
	text, err := os.ReadFile("../../docs/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "| False |") && !strings.Contains(line, "(False)") {
			continue
		}
		for _, m := range word.FindAllStringSubmatch(strings.Join(strings.Split(line, "|")[1:3], "|"), -1) {
			bad++
			if hints[m[1]] == "" {
				t.Errorf("%s, why a VM is not ready, has no hint", m[1])
			}
		}
	}
	if bad < 18 {
		t.Errorf("docs/controller.md has only %d reasons why a VM is not ready", bad)
	}
}
