package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanDoc holds docs/plan.md to the scripts, which have its examples as what is printed, and to the exit codes.
func TestPlanDoc(t *testing.T) {
	doc, err := os.ReadFile("../../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	var scripts strings.Builder
	names, err := filepath.Glob("../../testdata/cluster/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts.Write(text)
	}
	blocks := strings.Split(string(doc), "```text\n")[1:]
	if len(blocks) < 2 {
		t.Errorf("docs/plan.md has %d examples", len(blocks))
	}
	for _, b := range blocks {
		if example, _, _ := strings.Cut(b, "```"); !strings.Contains(scripts.String(), "--\n"+example) {
			t.Errorf("no script prints this example of docs/plan.md:\n%s", example)
		}
	}
	for code, means := range map[int]string{
		exitOK: "nothing would change", exitFailed: "it could not be found out", exitUsage: "the command line is wrong",
		exitChanges: "something would change", exitInvalid: "a VM would become invalid",
	} {
		if row := fmt.Sprintf("| %d | %s |\n", code, means); !strings.Contains(string(doc), row) {
			t.Errorf("docs/plan.md has no row %q", row)
		}
		if line := fmt.Sprintf("%d %s", code, means); !strings.Contains(strings.ReplaceAll(newPlanCommand().Long, "\n", " "), line) {
			t.Errorf("the help of plan does not say %q", line)
		}
	}
}
