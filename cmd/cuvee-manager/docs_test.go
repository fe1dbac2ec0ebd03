package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/controller/managerconfig"
)

var update = flag.Bool("update", false, "write the tables of docs/manager.md that are made from the program")

const managerDoc = "../../docs/manager.md"

// documented holds the part of docs/manager.md between two marks to a text; with -update it writes it.
func documented(t *testing.T, mark, want string) {
	t.Helper()
	data, err := os.ReadFile(managerDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "<!-- "+mark+" -->\n")
	is, after, ok2 := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no part %s", managerDoc, mark)
	}
	if *update {
		if err := os.WriteFile(managerDoc, []byte(before+"<!-- "+mark+" -->\n"+want+"<!-- /"+mark+" -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("the part %s is not current, run go test ./cmd/cuvee-manager -run %s -update (-program +documented):\n%s", mark, t.Name(), diff)
	}
}

func TestDocumentedFlags(t *testing.T) {
	var b strings.Builder
	b.WriteString("| flag | variable | default | meaning |\n|---|---|---|---|\n")
	o := options{}
	for _, s := range o.settings() {
		name, fallback := "`--"+s.name+"`", ""
		if s.shorthand != "" {
			name = "`-" + s.shorthand + "`, " + name
		}
		if s.fallback != "" {
			fallback = "`" + s.fallback + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", name, variable(s.name), fallback, strings.ReplaceAll(s.usage, "`", ""))
	}
	documented(t, "flags", b.String())
}

func TestDocumentedConfiguration(t *testing.T) {
	var b strings.Builder
	b.WriteString("| key | effect |\n|---|---|\n")
	for _, k := range managerconfig.Keys() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Path, k.Effect)
	}
	documented(t, "configuration", b.String())
}

// The example of a configuration is one.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile(managerDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if config, err := managerconfig.Parse("docs/manager.md", []byte(text)); err != nil || !ok || config.Namespace == "" || len(config.Ineffective) > 0 {
		t.Errorf("the example: %v, %+v", err, config)
	}
}

// The results of passes are those of the code.
func TestDocumentedResults(t *testing.T) {
	code, err := os.ReadFile("../../controller/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(managerDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| `result` of a pass |")
	table, _, _ = strings.Cut(table, "\n\n")
	var results, rows []string
	for _, m := range regexp.MustCompile(`outcome = "(\w+)"`).FindAllStringSubmatch(string(code), -1) {
		results = append(results, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	if diff := cmp.Diff(results, rows); diff != "" || len(rows) == 0 {
		t.Errorf("results of passes (-code +documented):\n%s", diff)
	}
}
