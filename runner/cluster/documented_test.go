package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/guestagent"
	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// statusSchema is the contract of a VirtualMachine's status.
func statusSchema(t *testing.T) cue.Value {
	t.Helper()
	instances := load.Instances([]string{"./schema"}, &load.Config{Dir: "../.."})
	v := cuecontext.New().BuildInstance(instances[0]).LookupPath(cue.ParsePath("#VirtualMachineStatus"))
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

// row is a row of a table of docs/status.md: name, writer, and what follows.
type row struct{ name, writer, last string }

// documented are the rows of the table under a heading.
func documented(t *testing.T, heading string) []row {
	t.Helper()
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	var rows []row
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		rows = append(rows, row{strings.Trim(cells[0], " `"), strings.TrimSpace(cells[1]), cells[len(cells)-1]})
	}
	return rows
}

// TestOneWriterForEachField holds the contract, the table of docs/status.md and the runner's code together.
func TestOneWriterForEachField(t *testing.T) {
	writers := map[string]string{}
	for _, r := range documented(t, "Fields") {
		if writers[r.name] != "" {
			t.Errorf("%s has two writers in the table", r.name)
		}
		writers[r.name] = r.writer
	}

	var fields []string
	it, err := statusSchema(t).Fields(cue.Optional(true))
	if err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		fields = append(fields, it.Selector().Unquoted())
	}
	slices.Sort(fields)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(writers))); diff != "" {
		t.Errorf("table of fields (-schema +docs):\n%s", diff)
	}

	written := map[string]bool{}
	for f := range reflect.TypeFor[status]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		written[name] = true
	}
	for name, writer := range writers {
		if want := writer == "runner" || writer == "both"; want != written[name] {
			t.Errorf("status.%s is %s's by the table, and the runner's code says %t", name, writer, written[name])
		}
	}
}

// fullOS has a value in each field.
func fullOS() guestagent.OS {
	var o guestagent.OS
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(v.Type().Field(i).Name)
	}
	return o
}

// lifetime has a status for every condition with every reason.
func lifetime() []runner.Status {
	var all []runner.Status
	for _, s := range slices.Sorted(maps.Keys(phases)) {
		all = append(all, runner.Status{State: s, Since: time.Now()})
	}
	for _, reason := range []string{runner.ReasonPanicked, runner.ReasonWatchdog, runner.ReasonPaused, runner.ReasonIOError} {
		s := runner.Status{State: runner.Paused, Reason: reason}
		if reason == runner.ReasonIOError {
			s.IOError = &runner.IOError{Device: "disk0", Operation: "write", Reason: "I/O error"}
		}
		all = append(all, s)
	}
	return append(all,
		runner.Status{State: runner.Booting, Reset: "2026-01-02T03:04:05Z"},
		runner.Status{State: runner.Starting, Reason: runner.ReasonImporting, Message: "m", Imports: []runner.Import{
			{Disk: "disk-0", Source: "https://images.example/a", State: runner.Importing, Bytes: 42, Total: 100, Rate: 7},
			{Disk: "disk-1", Source: "registry.example/a:1", State: runner.Filled, Bytes: 42, Total: 42},
		}},
		runner.Status{State: runner.Starting, Reason: runner.ReasonImportFailed, Imports: []runner.Import{{Disk: "disk-0", Source: "a", State: runner.ImportFailed, Message: "no"}}},
		runner.Status{State: runner.Paused, IOError: &runner.IOError{Device: "disk0", Operation: "write", NoSpace: true}},
		runner.Status{Pending: []runner.PendingChange{{Field: "currentCpus", Waiting: true}}},
		runner.Status{State: runner.Booting, Agent: runner.AgentSilent, Login: vmopagent.State{Wanted: "ann"}},
		runner.Status{State: runner.Booted, Agent: runner.AgentAnswers, Login: vmopagent.State{Connected: true, Wanted: "ann", Processing: true}, Guest: &runner.Guest{}},
		runner.Status{State: runner.Booted, Login: vmopagent.State{Connected: true, Wanted: "ann", Failure: "no such user"}},
		runner.Status{
			State: runner.Booted, Agent: runner.AgentAnswers, ConsoleClient: "192.0.2.1",
			Login: vmopagent.State{Connected: true, Wanted: "ann", User: "ann"},
			Guest: &runner.Guest{AgentVersion: "7.2", Hostname: "web", OS: fullOS(), Interfaces: []guestagent.Interface{
				{Name: "eth0", MAC: "52:54:00:12:34:56", Addresses: []string{"10.0.2.15", "fe80::1"}}, {Name: "tun0"},
			}},
		},
		runner.Status{Pending: []runner.PendingChange{{Field: "cdroms.cd0"}}, RAM: 3 << 29, CPUs: 2, DisplayPasswordSerial: -1,
			Resolved: map[string]map[string]string{"machine": {"type": "q35"}}, Booted: &runner.BootedConfig{Revision: "r"}},
	)
}

// The conditions and their reasons are those that the document promises.
func TestConditionsAreDocumented(t *testing.T) {
	got := map[string]map[string]bool{}
	for _, s := range lifetime() {
		var c conditions
		for _, condition := range c.of(s, time.Now()) {
			if got[condition.Type] == nil {
				got[condition.Type] = map[string]bool{}
			}
			got[condition.Type][condition.Reason] = true
		}
	}
	want := map[string]map[string]bool{}
	for _, r := range documented(t, "Conditions of the runner") {
		if r.writer != "runner" {
			t.Errorf("condition %s is %s's", r.name, r.writer)
		}
		reasons := map[string]bool{}
		for _, word := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(r.last, -1) {
			reasons[word[1]] = true
		}
		if reasons["Running"] {
			reasons = want["Running"]
		}
		want[r.name] = reasons
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-docs +code):\n%s", diff)
	}
}

// The document has the reason of each event that is no change of state: the texts of the source, as there is no other list of them.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`event\((?:true|false), "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(string(text), "`"+m[1]+"`") {
				t.Errorf("%s: event %s is not documented", name, m[1])
			}
		}
	}
	if found < 13 {
		t.Errorf("found %d events in the source", found)
	}
}

// Whatever a VM is, the API server takes it: its own schema is made from this contract.
func TestStatusIsValid(t *testing.T) {
	schema := statusSchema(t)
	for _, s := range lifetime() {
		var c conditions
		out := newStatus(s, "1.2.3")
		out.Conditions = c.of(s, time.Now())
		v := schema.Unify(cuecontext.New().Encode(out))
		if err := v.Validate(cue.Concrete(true)); err != nil {
			t.Errorf("status of %q: %v", s.State, err)
		}
	}
}
