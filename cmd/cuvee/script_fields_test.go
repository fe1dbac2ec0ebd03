package main

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// TestEveryFieldHasAScript wants a script for each field of a VirtualMachine that says what it does: its first line
// starts with the field, or with several with commas between them.
func TestEveryFieldHasAScript(t *testing.T) {
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: vmTemplates})
	if err != nil {
		t.Fatal(err)
	}
	definition, err := set.Definition()
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	collectFields(definition.LookupPath(cue.MakePath(cue.Str("spec").Required())), "spec", &fields)
	if len(fields) < 60 {
		t.Fatalf("the schema has only %d fields with an attribute @reaches: %v", len(fields), fields)
	}
	scripts := fieldsOfScripts(t)
	for _, f := range fields {
		if !slices.Contains(scripts, f) {
			t.Errorf("no script testdata/script/field-*.txtar starts with \"# %s: \"", f)
		}
	}
}

// collectFields lists the fields that say what they reach.
func collectFields(v cue.Value, path string, fields *[]string) {
	if reaches := v.Attribute("reaches"); reaches.Err() == nil {
		*fields = append(*fields, path)
	}
	if elem := v.LookupPath(cue.MakePath(cue.AnyIndex)); elem.Exists() {
		collectFields(elem, path, fields)
		return
	}
	if v.IncompleteKind() != cue.StructKind {
		return
	}
	it, err := v.Fields(cue.Optional(true))
	if err != nil {
		return
	}
	for it.Next() {
		collectFields(it.Value(), path+"."+it.Selector().Unquoted(), fields)
	}
}

func fieldsOfScripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "field-*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Scan()
		f.Close()
		named, _, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), ": ")
		if !ok {
			t.Errorf("%s: the first line names no field", name)
		}
		fields = append(fields, strings.Split(named, ", ")...)
	}
	return fields
}
