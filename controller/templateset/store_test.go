package templateset_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/render"
)

const (
	// patience is how long a test waits for what has to happen.
	patience = time.Minute
	interval = 5 * time.Millisecond
	settle   = 60 * time.Millisecond
)

// site is a store on a directory, and what it told.
type site struct {
	t     *testing.T
	dir   string
	store *templateset.Store

	mu      sync.Mutex
	refused []templateset.Problem
	taken   int
}

// follow starts a store on a directory of files.
func follow(t *testing.T, files map[string]string, change func(*templateset.Options)) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.write(files)
	o := templateset.Options{
		BuiltIn: builtIn(), Directory: s.dir, Interval: interval, Settle: settle, Retry: interval, Log: slog.New(slog.DiscardHandler),
		Refused: func(p templateset.Problem) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refused = append(s.refused, p)
		},
		Taken: func(string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.taken++
		},
	}
	if change != nil {
		change(&o)
	}
	s.dir = o.Directory
	store, err := templateset.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := store.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wait.Wait() })
	return s
}

func (s *site) takenSoFar() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

func (s *site) write(files map[string]string) {
	s.t.Helper()
	writeFiles(s.t, s.dir, files)
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// color is what the current templates make.
func (s *site) color() string {
	for _, p := range s.store.Current() {
		if p.Name == "gadget" {
			return colorOf(s.t, p)
		}
	}
	return ""
}

func colorOf(t *testing.T, p templateset.Package) string {
	t.Helper()
	r, err := p.Set.Render(render.Input{Document: gadget("any", 0)})
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Data map[string]string }
	if err := json.Unmarshal(r.Objects[0].JSON, &made); err != nil {
		t.Fatal(err)
	}
	return made.Data["color"]
}

func gadget(name string, size int64) render.Document {
	return render.Document{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	end := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			s.t.Fatalf("not %s: the problem is %v, the color %q", what, s.store.Problem(), s.color())
		}
	}
}

func (s *site) untilColor(color string) {
	s.t.Helper()
	s.until("the color "+color, func() bool { return s.color() == color })
}

func (s *site) untilProblem() templateset.Problem {
	s.t.Helper()
	s.until("refused", func() bool { return s.store.Problem() != nil })
	return *s.store.Problem()
}

func paint(color string) map[string]string {
	return map[string]string{"lab.cue": "package gadget\n\nsettings: color: \"" + color + "\"\n"}
}

func TestBuiltInAlone(t *testing.T) {
	s := follow(t, nil, func(o *templateset.Options) { o.Directory = "" })
	if got := s.color(); got != "green" {
		t.Errorf("the color is %q", got)
	}
	if got := s.store.Current()[0].Owner; got != "cuvee.gadget" {
		t.Errorf("the owner is %q", got)
	}
}

// TestGoodIsTaken lays a site's files over what is built in, and takes a change of them.
func TestGoodIsTaken(t *testing.T) {
	s := follow(t, paint("red"), nil)
	s.untilColor("red")
	<-s.store.Changed()
	before := s.store.Current()[0].Revision
	s.write(paint("blue"))
	s.untilColor("blue")
	select {
	case <-s.store.Changed():
	case <-time.After(patience):
		t.Error("Changed says nothing")
	}
	if s.store.Current()[0].Revision == before {
		t.Error("the revision is the same")
	}
}

// TestEmptyDirectory has what is built in.
func TestEmptyDirectory(t *testing.T) { follow(t, nil, nil).untilColor("green") }

// TestBadIsRefused keeps what was good, and says what is wrong, once.
func TestBadIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  templateset.Problem
	}{
		"Syntax":        {map[string]string{"lab.cue": "package gadget\n\nsettings: {\n"}, templateset.Problem{File: "lab.cue", Line: 3, Reason: "expected '}', found 'EOF'"}},
		"Type":          {map[string]string{"lab.cue": "package gadget\n\nsettings: color: 7\n"}, templateset.Problem{File: "lab.cue", Line: 3, Reason: "settings.color: 7 is not valid, want \"green\" or string"}},
		"Misspelt":      {map[string]string{"lab.cue": "package gadget\n\nsetting: color: \"x\"\n"}, templateset.Problem{File: "lab.cue", Line: 3, Reason: "setting: unknown field, did you mean settings?; a site's own fields begin with _ or #"}},
		"NoClause":      {map[string]string{"lab.cue": "settings: color: \"x\"\n"}, templateset.Problem{File: "lab.cue", Line: 1, Reason: "there is no package clause, want for instance: package vm"}},
		"OtherPackage":  {map[string]string{"lab.cue": "package vm\n"}, templateset.Problem{File: "lab.cue", Line: 1, Reason: "there is no template package \"vm\", known are gadget"}},
		"Case":          {map[string]string{"cases/a.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec:\n  size: 101\n"}, templateset.Problem{File: "cases/a.yaml", Line: 5, Reason: "spec.size: is too large"}},
		"CaseOfNoKind":  {map[string]string{"cases/a.yaml": "apiVersion: v1\nkind: Pod\n"}, templateset.Problem{File: "cases/a.yaml", Reason: "a case without a custom resource, want a Gadget of example.com/v1"}},
		"BuiltInCase":   {map[string]string{"lab.cue": "package gadget\n\nobjects: other: data: a: \"b\"\n"}, templateset.Problem{File: "templates/gadget/package.cue", Line: 22, Reason: "objects.other.apiVersion: field is required but not present; an object that is not always there is changed by \"objects: other?: …\" (and 2 more)"}},
		"Accept":        {map[string]string{"accept-broken": "# these\nGadget a/b c\n"}, templateset.Problem{File: "accept-broken", Line: 2, Reason: "want a line like \"VirtualMachine default/web\", or *"}},
		"BuiltInName":   {map[string]string{"gadget/package.cue": "package gadget\n"}, templateset.Problem{Reason: "gadget: a package of this name is built in; files that change it are in the directory itself, with the line: package gadget"}},
		"NoPackageFile": {map[string]string{"tool/tool.cue": "package tool\n"}, templateset.Problem{Reason: "tool: a directory is a template package, and has a file package.cue"}},
		"BadName":       {map[string]string{"A-tool/package.cue": "package tool\n"}, templateset.Problem{Reason: "A-tool: a directory is a template package, and its name begins with a small letter and has only those, digits and _"}},
		"OtherName":     {map[string]string{"tool/package.cue": "package tools\n"}, templateset.Problem{File: "tool/package.cue", Line: 1, Reason: "the package is called \"tools\", want \"tool\", as the directory"}},
		"SameKind": {
			map[string]string{"tool/package.cue": packageOf("tool", "Gadget", "github.com/cuvee-vm/cuvee/schema")},
			templateset.Problem{Reason: "tool: Gadget of example.com/v1 is served by the package gadget"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := follow(t, paint("red"), nil)
			s.untilColor("red")
			s.write(c.files)
			got := s.untilProblem()
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(templateset.Problem{}, "Since", "Revision")); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if got.Since.IsZero() || got.Revision == "" {
				t.Errorf("since %s, revision %q", got.Since, got.Revision)
			}
			if s.color() != "red" {
				t.Errorf("the color is %q", s.color())
			}
			// It is mended by going back.
			writeFiles(t, s.dir, paint("red"))
			for file := range c.files {
				if file != "lab.cue" {
					if err := os.RemoveAll(filepath.Join(s.dir, strings.Split(file, "/")[0])); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.until("mended", func() bool { return s.store.Problem() == nil })
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.refused) != 1 || s.taken != 1 {
				t.Errorf("told of %d refused and %d taken, want 1 and 1", len(s.refused), s.taken)
			}
		})
	}
}

// TestBuiltInCaseMayBeRefused lets a site allow less than what comes with the templates shows.
func TestBuiltInCaseMayBeRefused(t *testing.T) {
	s := follow(t, map[string]string{"lab.cue": "package gadget\n\nsettings: {limit: 0, color: \"red\"}\n"}, nil)
	s.untilColor("red")
}

// cluster is a Check that renders gadgets.
type cluster struct {
	mu      sync.Mutex
	gadgets map[string]int64
	asked   int
	err     error
}

func (c *cluster) set(name string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gadgets[name] = size
}

func (c *cluster) check(_ context.Context, candidate templateset.Candidate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.err != nil {
		return c.err
	}
	for name, size := range c.gadgets {
		object := "Gadget default/" + name
		if _, err := candidate.Packages[0].Set.Render(render.Input{Document: gadget(name, size)}); err != nil && !candidate.Accepts(object) {
			return &templateset.BrokenError{Object: object, Err: err}
		}
	}
	return nil
}

func limit(limit string, more map[string]string) map[string]string {
	out := map[string]string{"lab.cue": "package gadget\n\nsettings: {limit: " + limit + ", color: \"limited\"}\n"}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// TestCheckRefuses keeps a set that every gadget of the cluster renders with, until there is none that does not.
func TestCheckRefuses(t *testing.T) {
	c := &cluster{gadgets: map[string]int64{"small": 1, "large": 50}}
	s := follow(t, paint("red"), func(o *templateset.Options) { o.Check = c.check })
	s.untilColor("red")
	s.write(limit("10", nil))
	got := s.untilProblem()
	want := templateset.Problem{Reason: "spec.size: is too large", Object: "Gadget default/large"}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(templateset.Problem{}, "Since", "Revision")); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
	if s.color() != "red" {
		t.Errorf("the color is %q", s.color())
	}
	c.set("large", 5)
	s.untilColor("limited")
	if p := s.store.Problem(); p != nil {
		t.Errorf("the problem is still %v", p)
	}
}

// TestAcceptedMayBreak takes a set that breaks what the site accepts, and nothing else.
func TestAcceptedMayBreak(t *testing.T) {
	for name, c := range map[string]struct {
		list  string
		taken bool
	}{
		"Named": {"Gadget default/large # it moves out\n", true},
		"All":   {"*\n", true},
		"Other": {"Gadget default/small\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			cl := &cluster{gadgets: map[string]int64{"small": 1, "large": 50}}
			s := follow(t, paint("red"), func(o *templateset.Options) { o.Check = cl.check })
			s.untilColor("red")
			s.write(limit("10", map[string]string{"accept-broken": c.list}))
			if c.taken {
				s.untilColor("limited")
				return
			}
			s.untilProblem()
			if s.color() != "red" {
				t.Errorf("the color is %q", s.color())
			}
		})
	}
}

// TestCheckThatCannotSay is asked again until it can.
func TestCheckThatCannotSay(t *testing.T) {
	c := &cluster{err: errors.New("the API server is away")}
	s := follow(t, paint("red"), func(o *templateset.Options) { o.Check = c.check })
	s.untilColor("red")
	s.write(paint("blue"))
	got := s.untilProblem()
	if want := "could not be checked, which is tried again: the API server is away"; got.Reason != want {
		t.Errorf("the reason is %q, want %q", got.Reason, want)
	}
	c.mu.Lock()
	c.err = nil
	c.mu.Unlock()
	s.untilColor("blue")
}

// TestEditDuringCheck gives up what is being checked, and checks what is newest.
func TestEditDuringCheck(t *testing.T) {
	began := make(chan string, 10)
	check := func(ctx context.Context, c templateset.Candidate) error {
		color := colorOf(t, c.Packages[0])
		began <- color
		if color == "blue" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	s := follow(t, paint("red"), func(o *templateset.Options) { o.Check = check })
	s.untilColor("red")
	s.write(paint("blue"))
	if got := <-began; got != "blue" {
		t.Fatalf("checked %q", got)
	}
	s.write(paint("white"))
	s.untilColor("white")
	s.until("two sets taken", func() bool { return s.takenSoFar() == 2 })
}

// TestHalfWritten never takes a directory that is being written, not even when what is there is good by itself.
func TestHalfWritten(t *testing.T) {
	s := follow(t, paint("red"), func(o *templateset.Options) { o.Settle = time.Second })
	s.untilColor("red")
	// Each step leaves something good.
	for _, color := range []string{"half", "more", "most", "whole"} {
		s.write(paint(color))
		<-time.After(20 * time.Millisecond)
		if got := s.color(); got != "red" {
			t.Fatalf("took %q, which was not the last", got)
		}
	}
	s.untilColor("whole")
	s.until("two sets taken", func() bool { return s.takenSoFar() == 2 })
}

// TestConfigMapMount follows a directory as kubelet makes it, where a symlink is swapped.
func TestConfigMapMount(t *testing.T) {
	dir := t.TempDir()
	mount := func(version string, files map[string]string) {
		t.Helper()
		writeFiles(t, filepath.Join(dir, version), files)
		for name := range files {
			top := strings.Split(name, "/")[0]
			if err := os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..2026_1", paint("red"))
	s := follow(t, nil, func(o *templateset.Options) { o.Directory = dir })
	s.untilColor("red")
	mount("..2026_2", map[string]string{
		"lab.cue":      paint("blue")["lab.cue"],
		"cases/a.yaml": "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\nspec: {size: 2}\n",
	})
	s.untilColor("blue")
	if err := os.RemoveAll(filepath.Join(dir, "..2026_1")); err != nil {
		t.Fatal(err)
	}
	s.until("still good", func() bool { return s.store.Problem() == nil && s.color() == "blue" })
}

// TestSwappedDirectory follows a directory that is itself a symlink, as git-sync makes it.
func TestSwappedDirectory(t *testing.T) {
	parent := t.TempDir()
	link := filepath.Join(parent, "current")
	point := func(to string, color string) {
		t.Helper()
		writeFiles(t, filepath.Join(parent, to), paint(color))
		if err := os.Symlink(to, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	point("one", "red")
	s := follow(t, nil, func(o *templateset.Options) { o.Directory = link })
	s.untilColor("red")
	point("two", "blue")
	s.untilColor("blue")
}

// TestDirectoryGone keeps what was good when the directory is removed, or emptied, and takes what comes back.
func TestDirectoryGone(t *testing.T) {
	for name, c := range map[string]struct {
		leave  string
		reason string
	}{
		"Removed": {"", "no such file or directory"},
		"Emptied": {"README.md", "has no *.cue file any more"},
	} {
		t.Run(name, func(t *testing.T) {
			s := follow(t, paint("red"), nil)
			s.untilColor("red")
			if err := os.RemoveAll(s.dir); err != nil {
				t.Fatal(err)
			}
			if c.leave != "" {
				s.write(map[string]string{c.leave: "Nothing here."})
			}
			s.until("refused for that", func() bool { p := s.store.Problem(); return p != nil && strings.Contains(p.Reason, c.reason) })
			if s.color() != "red" {
				t.Errorf("the color is %q", s.color())
			}
			s.write(paint("blue"))
			s.untilColor("blue")
		})
	}
}

// TestDirectoryComesLater has nothing to render with until there is a directory: never what is built in alone.
func TestDirectoryComesLater(t *testing.T) {
	s := follow(t, nil, func(o *templateset.Options) { o.Directory = filepath.Join(o.Directory, "later") })
	s.untilProblem()
	if got := s.store.Current(); len(got) != 0 {
		t.Errorf("there are %d packages", len(got))
	}
	s.write(paint("red"))
	s.untilColor("red")
}

// TestNewKind adds a kind that nothing is built in for, with its contract and a case, and takes it away again.
func TestNewKind(t *testing.T) {
	s := follow(t, paint("red"), nil)
	s.untilColor("red")
	tool := map[string]string{
		"tool/schema/tool.cue":  schemaOf("Tool"),
		"tool/package.cue":      packageOf("tool", "Tool", "github.com/cuvee-vm/cuvee/templates/tool/schema"),
		"tool/cases/small.yaml": "apiVersion: example.com/v1\nkind: Tool\nmetadata: {name: small}\nspec: {size: 3}\n",
	}
	s.write(tool)
	s.until("two packages", func() bool { return len(s.store.Current()) == 2 })
	p := s.store.Current()[1]
	if p.Name != "tool" || p.Owner != "cuvee.tool" || p.Set.Kind.Kind != "Tool" {
		t.Errorf("the package is %s of %s for %s", p.Name, p.Owner, p.Set.Kind.Kind)
	}
	gadgets := s.store.Current()[0].Revision
	// Its contract is part of its revision, and of no other package's.
	s.write(map[string]string{"tool/schema/tool.cue": schemaOf("Tool") + "\n// More.\n"})
	s.until("another revision", func() bool { return s.store.Current()[1].Revision != p.Revision })
	if s.store.Current()[0].Revision != gadgets {
		t.Error("the revision of the other package is another one, too")
	}
	// Its own cases may not be refused.
	s.write(map[string]string{"tool/cases/small.yaml": strings.Replace(tool["tool/cases/small.yaml"], "3", "300", 1)})
	if got := s.untilProblem(); got.File != "tool/cases/small.yaml" || got.Line != 4 {
		t.Errorf("the problem is %v", got)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "tool")); err != nil {
		t.Fatal(err)
	}
	s.until("one package", func() bool { return len(s.store.Current()) == 1 })
}

// memory is a Keeper.
type memory struct {
	mu   sync.Mutex
	data []byte
}

func (m *memory) Load(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data, nil
}

func (m *memory) Save(_ context.Context, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = data
	return nil
}

// TestKeptOverRestart starts with what was good last, whatever the directory has become.
func TestKeptOverRestart(t *testing.T) {
	keeper := &memory{}
	first := follow(t, paint("red"), func(o *templateset.Options) { o.Keeper = keeper })
	first.untilColor("red")
	first.until("kept", func() bool { data, _ := keeper.Load(t.Context()); return data != nil })

	c := &cluster{gadgets: map[string]int64{"large": 50}}
	second := follow(t, limit("10", nil), func(o *templateset.Options) { o.Keeper, o.Check = keeper, c.check })
	if got := second.color(); got != "red" {
		t.Errorf("it starts with %q", got)
	}
	if got := second.untilProblem(); got.Object != "Gadget default/large" {
		t.Errorf("the problem is %v", got)
	}
	if got := second.color(); got != "red" {
		t.Errorf("the color is %q", got)
	}
}

// TestPage says what is in use, and what is wrong, in text and in JSON.
func TestPage(t *testing.T) {
	s := follow(t, paint("red"), nil)
	s.untilColor("red")
	if page := s.get(""); strings.Contains(page, "not in use") || !strings.Contains(page, "Gadget of example.com/v1") {
		t.Errorf("the page is:\n%s", page)
	}
	s.write(map[string]string{"lab.cue": "package gadget\n\nsettings: color: 7\n"})
	s.untilProblem()
	page := s.get("")
	for _, want := range []string{s.dir, "not in use", "file       lab.cue", "line       3", "settings.color: 7 is not valid", s.store.Problem().Revision} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	var status templateset.Status
	if err := json.Unmarshal([]byte(s.get("application/json")), &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.store.Status(), status, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func (s *site) get(accept string) string {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/templates", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.store.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		s.t.Errorf("the page answers %d", w.Code)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	s := follow(t, paint("red"), nil)
	s.untilColor("red")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.store)
	s.write(map[string]string{"lab.cue": "package gadget\n\nsettings: color: 7\n"})
	s.untilProblem()
	want := `
# HELP cuvee_templates_info 1 for each template package in use, with its revision.
# TYPE cuvee_templates_info gauge
cuvee_templates_info{package="gadget",revision="` + s.store.Current()[0].Revision + `"} 1
# HELP cuvee_templates_refusals_total How often files of the site's directory were refused.
# TYPE cuvee_templates_refusals_total counter
cuvee_templates_refusals_total 1
# HELP cuvee_templates_refused 1 if the files of the site's directory are not those in use, see /templates.
# TYPE cuvee_templates_refused gauge
cuvee_templates_refused 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "cuvee_templates_info", "cuvee_templates_refusals_total", "cuvee_templates_refused"); err != nil {
		t.Error(err)
	}
}
