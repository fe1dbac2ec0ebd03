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

// Each row of the table of rights in docs/cli.md is above the test that has users with these rights, as it stands in the document.
func TestRightsTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "| command | needs, in the namespace |\n|---|---|\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	var tests string
	for _, name := range []string{"../../testdata/cluster/rights.txtar", "cluster_console_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(text)
	}
	rows := strings.Split(table, "\n")
	if len(rows) < 6 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(tests, "# "+row+"\n") && !strings.Contains(tests, "//\t"+row+"\n") {
			t.Errorf("no test has users with the rights of this row:\n%s", row)
		}
	}
}
