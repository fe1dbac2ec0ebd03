package cuvee_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
)

var update = flag.Bool("update", false, "write the parts of docs/ that are made from the templates")

const sitesDoc = "docs/sites.md"

// TestSettingsTable holds the table of settings in docs/sites.md to the templates; with -update it writes it.
func TestSettingsTable(t *testing.T) { holdPart(t, sitesDoc, "settings", settingsTable(t)) }

// holdPart holds the part of a document between two marks to what it is made from; with -update it writes it.
func holdPart(t *testing.T, doc, mark, part string) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- "+mark+" -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /"+mark+" -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no marks %s", doc, mark)
	}
	want := before + "<!-- " + mark + " -->\n" + part + "<!-- /" + mark + " -->" + after
	if *update {
		if err := os.WriteFile(doc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is not current, run go test . -run %s -update (-want +got):\n%s", doc, t.Name(), diff)
	}
}

// builtIn is a field of the built-in templates of VirtualMachines.
func builtIn(t *testing.T, field string) cue.Value {
	t.Helper()
	inst := load.Instances([]string{"./templates/vm"}, &load.Config{FS: cuvee.Files, Dir: "/"})[0]
	v := cuecontext.New().BuildInstance(inst).LookupPath(cue.ParsePath(field))
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func settingsTable(t *testing.T) string {
	t.Helper()
	settings := builtIn(t, "settings")
	var out strings.Builder
	out.WriteString("| setting | default | what it is for |\n|---|---|---|\n")
	rows := writeSettings(t, &out, settings, "")
	if rows < 40 {
		t.Fatalf("the templates have only %d settings", rows)
	}
	return out.String()
}

// writeSettings writes a row for each setting that is not a group of others.
func writeSettings(t *testing.T, out *strings.Builder, v cue.Value, path string) int {
	t.Helper()
	var doc []string
	for _, group := range v.Doc() {
		if text := strings.TrimSpace(group.Text()); !strings.HasPrefix(text, "#") {
			doc = append(doc, strings.Join(strings.Fields(text), " "))
		}
	}
	about := strings.Join(doc, " ")
	rows := 0
	if v.IncompleteKind() == cue.StructKind && path != "firmware" {
		it, err := v.Fields(cue.Optional(true))
		if err != nil {
			t.Fatalf("settings.%s: %v", path, err)
		}
		for it.Next() {
			rows += writeSettings(t, out, it.Value(), strings.TrimPrefix(path+"."+it.Selector().Unquoted(), "."))
		}
	}
	if rows > 0 {
		return rows
	}
	if about == "" {
		t.Errorf("settings.%s has no comment in the templates", path)
	}
	fmt.Fprintf(out, "| `%s` | %s | %s |\n", path, settingDefault(v, path), strings.ReplaceAll(about, "|", `\|`))
	return 1
}

func settingDefault(v cue.Value, path string) string {
	if path == "firmware" {
		return "the files of several distributions"
	}
	d, _ := v.Default()
	text, err := d.MarshalJSON()
	switch {
	case err != nil || string(text) == "{}":
		return "none"
	default:
		return "`" + string(text) + "`"
	}
}

var codeBlock = regexp.MustCompile("(?s)```(cue|sh)\n(.*?)```")

// TestDocsExamples holds the examples of docs/ to the scripts in testdata/script: a block of CUE is, as it stands, in
// one of them, and so is each command of ours.
func TestDocsExamples(t *testing.T) {
	var scripts string
	names, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		scripts += string(text)
	}
	for _, doc := range []string{"docs/rendering.md", sitesDoc} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		blocks := codeBlock.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no examples", doc)
		}
		for _, block := range blocks {
			if block[1] == "cue" {
				if !strings.Contains(scripts, block[2]) {
					t.Errorf("%s: no script has this example:\n%s", doc, block[2])
				}
				continue
			}
			for _, command := range ourCommands(block[2]) {
				if !strings.Contains(scripts, "\nexec "+command+"\n") {
					t.Errorf("%s: no script runs: %s", doc, command)
				}
			}
		}
	}
}

// ourCommands are the calls of cuvee and cue in some lines of shell.
func ourCommands(shell string) []string {
	var out []string
	for line := range strings.Lines(shell) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), " | ") {
			part = strings.TrimPrefix(part, "CUE_DEBUG=sortfields ")
			if strings.HasPrefix(part, "cuvee ") || strings.HasPrefix(part, "cue ") {
				out = append(out, part)
			}
		}
	}
	return out
}
