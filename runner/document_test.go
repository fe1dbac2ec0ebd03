package runner_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// table returns the rows of the first table below a heading of docs/runner.md, without its head.
func table(t *testing.T, heading string, number int) [][]string {
	t.Helper()
	data, err := os.ReadFile("../docs/runner.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var tables [][][]string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		isRow := strings.HasPrefix(line, "|")
		if isRow && !inside {
			tables = append(tables, nil)
		}
		inside = isRow
		if !isRow {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		tables[len(tables)-1] = append(tables[len(tables)-1], cells)
	}
	if len(tables) <= number || len(tables[number]) < 3 {
		t.Fatalf("below %q there are %d tables", heading, len(tables))
	}
	return tables[number][2:]
}

func column(rows [][]string, i int) []string {
	var cells []string
	for _, row := range rows {
		cells = append(cells, row[i])
	}
	return cells
}

// The document has the table of a VM's life as the code has it, and each state.
func TestDocumentStates(t *testing.T) {
	var want [][]string
	var states []string
	for _, row := range runner.Life() {
		var from []string
		for _, s := range row.From {
			from = append(from, string(s))
			states = append(states, string(s))
		}
		states = append(states, string(row.To))
		want = append(want, []string{strings.Join(from, ", "), row.On, string(row.To), row.Does})
	}
	if diff := cmp.Diff(want, table(t, "States", 1)); diff != "" {
		t.Errorf("transitions (-code +document):\n%s", diff)
	}
	slices.Sort(states)
	states = slices.DeleteFunc(slices.Compact(states), func(s string) bool { return s == "the state before" })
	documented := column(table(t, "States", 0), 0)
	slices.Sort(documented)
	if diff := cmp.Diff(states, documented); diff != "" {
		t.Errorf("states (-code +document):\n%s", diff)
	}
}

// The document has each end with its exit code.
func TestDocumentEnds(t *testing.T) {
	want := map[string]string{"(error)": ""}
	for _, end := range []runner.End{
		runner.EndGuest, runner.EndRequested, runner.EndCalledOff, runner.EndForced, runner.EndPanicked,
	} {
		want[string(end)] = fmt.Sprint(runner.ExitCode(end, nil))
	}
	got := make(map[string]string)
	codes := []string{}
	for _, row := range table(t, "How a VM ends", 0) {
		got[row[0]] = row[2]
		codes = append(codes, row[2])
	}
	for _, err := range []error{os.ErrNotExist, runner.ErrRefused, runner.ErrCrashed} {
		if code := fmt.Sprint(runner.ExitCode("", err)); !slices.Contains(codes, code) {
			t.Errorf("no exit code %s", code)
		}
	}
	got["(error)"] = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ends (-code +document):\n%s", diff)
	}
}

// The document has each field below live.
func TestDocumentLive(t *testing.T) {
	var want []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[runner.Live]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
	}
	var got []string
	for _, cell := range column(table(t, "Live changes", 0), 0) {
		name, _, _ := strings.Cut(strings.Trim(cell, "`"), ".")
		got = append(got, name)
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("fields (-code +document):\n%s", diff)
	}
}
