package cuvee_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBudgets holds the table of CONTRIBUTING.md to the steps of .ci/run, and their budgets to what there is for all of them.
func TestBudgets(t *testing.T) {
	const whole = 45 * 60 // seconds
	run, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	loop := regexp.MustCompile(`(?m)^for target in (.*); do$`).FindSubmatch(run)
	if loop == nil {
		t.Fatal(".ci/run has no loop over targets any more")
	}
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	sum := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| ([0-9]+) \\| [0-9]+ \\|").FindAllStringSubmatch(string(page), -1) {
		budget, err := strconv.Atoi(row[2])
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, row[1])
		sum += budget
	}
	if diff := cmp.Diff(strings.Fields(string(loop[1])), steps); diff != "" {
		t.Errorf("the steps of .ci/run are not those of the table in CONTRIBUTING.md (-run +table):\n%s", diff)
	}
	if sum > whole {
		t.Errorf("the budgets are %d s, more than %d s", sum, whole)
	}
}
