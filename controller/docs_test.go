package controller_test

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
)

// part is the part of docs/controller.md between two marks.
func part(t *testing.T, mark string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<!-- "+mark+" -->\n")
	table, _, ok2 := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !ok || !ok2 {
		t.Fatalf("docs/controller.md has no part %s", mark)
	}
	return table
}

// words are the first groups of all matches, sorted, each once.
func words(pattern, text string) []string {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// The reasons of the engine are those of the code.
func TestDocumentedReasons(t *testing.T) {
	code, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(words(`(?m)^\s+reason\w+\s+= "(\w+)"$`, string(code)), words("(?m)^\\| `(\\w+)`", part(t, "engine"))); diff != "" {
		t.Errorf("reasons (-code +documented):\n%s", diff)
	}
}

// The conditions of the templates are those of the CUE.
func TestDocumentedConditions(t *testing.T) {
	var reasons, types strings.Builder
	names, err := fs.Glob(cuvee.Files, "templates/vm/*.cue")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	status, err := os.ReadFile("../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	compared := regexp.MustCompile(`list\.Contains\([^)]*\)|[!=]= "\w*"`)
	for _, name := range names {
		text, err := fs.ReadFile(cuvee.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, reason, ok := strings.Cut(compared.ReplaceAllString(line, ""), "reason:"); ok {
				reason, _, _ = strings.Cut(reason, "message:")
				reasons.WriteString(reason)
			}
		}
		for _, m := range regexp.MustCompile(`conditions: (\{\s+)?(\w+): \{`).FindAllStringSubmatch(string(text), -1) {
			types.WriteString("`" + m[2] + "`")
		}
	}
	table := part(t, "templates")
	documented := words("`(\\w+)`", table)
	// What the manager says in the runner's place is in docs/status.md.
	runners := words("`(\\w+)`", string(status))
	written := words(`"([A-Z]\w+)"`, reasons.String())
	if len(written) < 15 {
		t.Fatalf("only %q are found in the templates", written)
	}
	for _, r := range written {
		if !slices.Contains(documented, r) && !slices.Contains(runners, r) {
			t.Errorf("the reason %s is not documented", r)
		}
	}
	types.WriteString("`Ready`")
	ofTemplates := slices.Concat(written, words("`(\\w+)`", types.String()))
	for _, d := range words("(?m)^\\| `(\\w+)`", table) {
		if !slices.Contains(ofTemplates, d) {
			t.Errorf("the type %s is documented, and not in the templates", d)
		}
	}
	for _, row := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		for _, d := range words("`(\\w+)`", strings.Split(row, "|")[2]) {
			if !slices.Contains(written, d) {
				t.Errorf("the reason %s is documented, and not in the templates", d)
			}
		}
	}
	for _, ty := range words("`(\\w+)`", types.String()) {
		if !slices.Contains(documented, ty) && !slices.Contains(runners, ty) {
			t.Errorf("the type %s is not documented", ty)
		}
	}
}
