package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table of docs/cli.md has each command, once, in order.
func TestCommandsTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- commands -->\n")
	table, _, _ := strings.Cut(rest, "<!-- /commands -->")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `cuvee ([a-z]+)`").FindAllStringSubmatch(table, -1) {
		documented = append(documented, m[1])
	}
	root := newRootCommand(streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	root.InitDefaultCompletionCmd()
	var have []string
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() {
			have = append(have, cmd.Name())
		}
	}
	slices.Sort(have)
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("commands (-have +documented):\n%s", diff)
	}
}
