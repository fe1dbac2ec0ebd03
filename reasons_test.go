package cuvee_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fine are reasons that ask for nothing.
var fine = []string{
	"AllEffective", "Applied", "AsSpecified", "AtMostOne", "Connected", "ContentKept", "Disconnected", "Filled", "GuestAgentAbsent", "GuestAgentAnswers", "LoggedIn", "NotPaused", "NotRequested", "NotRunning",
	"PodTerminating", "Processing", "Running", "RunnerStarted", "Settled", "Stopped", "Stopping", "UpToDate", "VmBooted", "VmPaused", "VmStarted", "VmStopped", "VmTerminating",
	"VmopAgentDisconnected", "VmopAgentStarted", "WaitingForStart",
}

// TestReasons holds the table of reasons in docs/troubleshooting.md to the templates, and these to the reasons that there are.
func TestReasons(t *testing.T) {
	var table strings.Builder
	table.WriteString("| reason | what has happened | what to do |\n|---|---|---|\n")
	var explained []string
	it, err := builtIn(t, "reasons").Fields()
	if err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		var r struct{ Means, Do string }
		if err := it.Value().Decode(&r); err != nil {
			t.Fatal(err)
		}
		explained = append(explained, it.Selector().Unquoted())
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", it.Selector().Unquoted(), r.Means, r.Do)
	}
	holdPart(t, "docs/troubleshooting.md", "reasons", table.String())

	var all []string
	for doc, rows := range map[string]*regexp.Regexp{
		"docs/controller.md": regexp.MustCompile(`(?ms)^<!-- (engine|templates) -->$.*?^<!-- /`),
		"docs/status.md":     regexp.MustCompile(`(?ms)^\| type \| writer .*?^$`),
	} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows.FindAllString(string(text), -1) {
			for _, m := range regexp.MustCompile("`([A-Z]\\w+)`").FindAllStringSubmatch(row, -1) {
				all = append(all, m[1])
			}
		}
	}
	// Types of conditions are in the tables, too.
	types := []string{"Ready", "RestartRequired", "ClaimsAsSpecified", "DisksFilled", "DisplaySecretUnique", "FieldsEffective", "Booted", "Paused", "LiveChangesApplied", "GuestAgentConnected", "VmopAgentConnected", "UserLoggedIn", "ConsoleConnected"}
	for _, r := range all {
		if !slices.Contains(slices.Concat(explained, fine, types), r) {
			t.Errorf("the reason %s is neither explained in templates/vm/reasons.cue nor fine", r)
		}
	}
	for _, r := range explained {
		if !slices.Contains(all, r) {
			t.Errorf("the reason %s is explained, and documented nowhere", r)
		}
	}
	if len(all) < 50 {
		t.Errorf("only %q are found in the documents", all)
	}
}
