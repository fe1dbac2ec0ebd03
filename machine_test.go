package cuvee_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// found are the first groups of all matches in files, sorted, each once.
func found(t *testing.T, pattern string, files ...string) []string {
	t.Helper()
	var out []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The table of docs/machine.md has the metrics that the templates have.
func TestMachineMetrics(t *testing.T) {
	metrics := found(t, `name: +"(?:kubevirt_operator_|\\\(_prefix\))([a-z_]+)"`, "templates/machine/metrics.cue")
	if len(metrics) != 6 {
		t.Errorf("the templates have the metrics %v, want six", metrics)
	}
	if diff := cmp.Diff(metrics, found(t, "(?m)^\\| `kubevirt_operator_([a-z_]+)` \\|", "docs/machine.md")); diff != "" {
		t.Errorf("metrics (-templates +docs):\n%s", diff)
	}
}

// docs/machine.md has the reasons that the templates give to conditions and Events, and those of them that ask for something are explained.
func TestMachineReasons(t *testing.T) {
	// These ask for nothing, or are phases and values.
	rest := []string{
		"Running", "Pending", "Creating", "Stopped", "VMCreated", "PVCBound", "NetworkConfigured", "AsSpecified", "NothingLeft", "Kept",
		"True", "False", "Failed", "Always", "Halted",
		// What the first ones of the table say in another condition.
		"NetworkFailed",
	}
	files, err := filepath.Glob("templates/machine/*.cue")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "reasons.cue" })
	given := found(t, `(?m)(?:reason: "|parting: |\{"|, "|^\t+")([A-Z][A-Za-z]+)(?:: [{m]|"\}|"\]\[0\]|",$|", message)`, files...)
	explained := found(t, `(?m)^(?:reasons: |\t)([A-Z][A-Za-z]+): \{means`, "templates/machine/reasons.cue")
	if len(explained) < 10 {
		t.Errorf("the templates explain %v, want more", explained)
	}
	if diff := cmp.Diff(explained, slices.DeleteFunc(given, func(r string) bool { return slices.Contains(rest, r) })); diff != "" {
		t.Errorf("reasons (-explained +given):\n%s", diff)
	}
	documented := found(t, "`([A-Z][A-Za-z]+)`", "docs/machine.md")
	for _, r := range slices.Concat(explained, rest[:10], rest[15:]) {
		if !slices.Contains(documented, r) {
			t.Errorf("docs/machine.md does not have the reason %s", r)
		}
	}
}

// machineSet has the templates of Machines.
func machineSet(t *testing.T) *render.Set {
	t.Helper()
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/machine"})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// phaseOf is the phase that a Machine has which was in another one, and whose VirtualMachine of KubeVirt says something of itself. With an
// empty strategy there is none.
func phaseOf(t *testing.T, set *render.Set, template, before, strategy, says string) string {
	t.Helper()
	const uid = "00000000-0000-4000-8000-000000000001"
	input := map[string]any{
		"apiVersion": "vitistack.io/v1alpha1", "kind": "Machine", "metadata": map[string]any{"name": "web", "namespace": "default", "uid": uid},
		"spec": map[string]any{"template": template},
	}
	observed := map[string][]map[string]any{"self": {{"metadata": map[string]any{"name": "web"}, "status": map[string]any{"phase": before}}}}
	if strategy != "" {
		observed["kubevirt"] = []map[string]any{{
			"metadata": map[string]any{"name": "web", "ownerReferences": []any{map[string]any{"uid": uid}}},
			"spec":     map[string]any{"runStrategy": strategy}, "status": map[string]any{"printableStatus": says},
		}}
	}
	if before != "Pending" {
		observed["claims"] = []map[string]any{{"metadata": map[string]any{"name": "web-root"}, "spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "20Gi"}}}}}
	}
	r, err := set.Render(render.Input{Document: render.Document{Object: input}, Observed: observed})
	if err != nil {
		t.Fatalf("%s, %s, %s: %v", before, strategy, says, err)
	}
	var status struct{ Phase string }
	if err := json.Unmarshal(r.Status, &status); err != nil {
		t.Fatal(err)
	}
	return status.Phase
}

// printable are all that KubeVirt's VirtualMachines say of themselves (VirtualMachinePrintableStatus of kubevirt.io/api v1.9.0).
var printable = []string{
	"Stopped", "Provisioning", "Starting", "Running", "Paused", "Stopping", "Terminating", "CrashLoopBackOff", "Migrating", "Unknown", "ErrorUnschedulable",
	"ErrImagePull", "ImagePullBackOff", "ErrorPvcNotFound", "DataVolumeError", "WaitingForVolumeBinding", "WaitingForReceiver",
}

// rows are the cells of a table's rows in docs/machine.md, by the words in the first one.
func rows(t *testing.T, header string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/machine.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+header+"\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	out := map[string][]string{}
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		for _, word := range strings.Fields(strings.ReplaceAll(cells[0], "`", "")) {
			out[word] = cells
		}
	}
	return out
}

// The tables of docs/machine.md have the phase that follows from each word of KubeVirt's, and the phases that can follow on each.
func TestMachinePhases(t *testing.T) {
	set := machineSet(t)
	words := rows(t, "| KubeVirt's `printableStatus` | Phase |")
	if len(words) != len(printable) {
		t.Errorf("the table has %d words, KubeVirt %d", len(words), len(printable))
	}
	phases := rows(t, "| Phase | When | Next |")
	next := map[string]map[string]bool{}
	for before := range phases {
		next[before] = map[string]bool{}
	}
	for _, says := range append(printable, "") {
		for before := range phases {
			for _, strategy := range []string{"Always", "Halted"} {
				next[before][phaseOf(t, set, "small", before, strategy, says)] = true
			}
		}
		if says == "" {
			continue
		}
		want, strategy := strings.Trim(strings.Split(words[says][1], ",")[0], "`"), "Always"
		if want == "Stopped" {
			strategy = "Halted"
		}
		if want == "the one before" {
			want = "Creating"
		}
		if got := phaseOf(t, set, "small", "Creating", strategy, says); got != want {
			t.Errorf("%s is the phase %s, want %s", says, got, want)
		}
	}
	for before := range phases {
		for _, template := range []string{"small", "none"} {
			next[before][phaseOf(t, set, template, before, "", "")] = true
		}
		documented := map[string]bool{before: true}
		for _, p := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(phases[before][2], -1) {
			documented[p[1]] = true
		}
		next[before][before] = true
		if diff := cmp.Diff(documented, next[before]); diff != "" {
			t.Errorf("what follows on %s (-documented +templates):\n%s", before, diff)
		}
	}
}

// The examples are Machines that the templates take, with all that they name.
func TestMachineExamples(t *testing.T) {
	files, err := filepath.Glob("examples/machines/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	set := machineSet(t)
	for _, file := range append(files, "examples/machine.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := render.Decode(file, text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := set.RenderObserving(render.Input{Document: docs[0]}, docs[1:])
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(r.Objects) < 2 {
			t.Errorf("%s becomes %d objects, want claims and a VirtualMachine", file, len(r.Objects))
		}
	}
}
