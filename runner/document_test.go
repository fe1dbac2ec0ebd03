package runner_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
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

// The document has each end with its exit code, and each error.
func TestDocumentEnds(t *testing.T) {
	var want [][]string
	for _, end := range []runner.End{
		runner.EndGuest, runner.EndRequested, runner.EndCalledOff, runner.EndForced, runner.EndPanicked,
	} {
		want = append(want, []string{string(end), fmt.Sprint(runner.ExitCode(end, nil))})
	}
	for _, err := range []error{os.ErrNotExist, runner.ErrRefused, runner.ErrCrashed} {
		want = append(want, []string{"(error)", fmt.Sprint(runner.ExitCode("", err))})
	}
	var got [][]string
	for _, row := range table(t, "How a VM ends", 0) {
		got = append(got, []string{row[0], row[2]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ends (-code +document):\n%s", diff)
	}
}

// The document has each reason of a status: the constants of the source, as there is no other list of them.
func TestDocumentReasons(t *testing.T) {
	source, err := os.ReadFile("status.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tReason\w+ = "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, m[1])
	}
	data, err := os.ReadFile("../docs/runner.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "`Status.Reason` says why")
	text, _, _ = strings.Cut(text, "\n\n")
	var got []string
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-code +document):\n%s", diff)
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
