package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/load"
)

// Kind is the kind of custom resource that a template package is for.
type Kind struct {
	Group      string `json:"group"`
	Version    string `json:"version"`
	Kind       string `json:"kind"`
	Plural     string `json:"plural"`
	Namespaced bool   `json:"namespaced"`
}

// APIVersion is the kind's group and version as a manifest has them.
func (k Kind) APIVersion() string { return k.Group + "/" + k.Version }

// Set is a compiled template package. It is immutable and may be used by several goroutines at a time.
type Set struct {
	// Kind is the kind that the templates are for.
	Kind Kind
	// Revision is a digest of the files that the set was loaded from.
	Revision string
	// Finalizer is put on each custom resource before anything is applied for it; empty if there is none.
	Finalizer string
	// Passes is a histogram of what a pass over a custom resource takes, beside the engine's own; without a name there is none.
	Passes Series
	// Step is how often the clock that templates see moves on; 0 means that they see none.
	Step time.Duration
	// Makes are the kinds of objects that the templates make, by role.
	Makes map[string]Made
	// Watches are the kinds of objects that the templates look at, by the key of [Lookup]. Of a Lookup it has only
	// what is known without an input.
	Watches map[string]Lookup

	source Source
	// contract is the kind's; it is kept, as it takes little memory.
	contract *contract

	mu       sync.Mutex
	compiled *compiled
}

// compiled is what CUE has made of a template package.
type compiled struct {
	ctx  *cue.Context
	root cue.Value
	// definition is the contract of the kind: schema.#Kind. rules are those that concern more than one field.
	definition, rules cue.Value
}

// The paths of the contract between templates and this package; see templates/vm/package.cue.
var (
	kindPath    = cue.ParsePath("kind")
	inputPath   = cue.ParsePath("input")
	objectsPath = cue.ParsePath("objects")
	statusPath  = cue.ParsePath("status")
	faultsPath  = cue.ParsePath("faults")
	reservePath = cue.ParsePath("reserve")
	wakePath    = cue.ParsePath("wake")
)

// Load compiles a template package and checks it as a whole. Its errors have a line for each thing that is wrong, with
// the place.
func Load(src Source) (*Set, error) {
	inst, err := src.instance()
	if err != nil {
		return nil, err
	}
	c := compileInstance(inst)
	s := &Set{source: src, Revision: revisionOf(inst), compiled: c}
	if err := c.root.Validate(); err != nil {
		return nil, explainCUE("check templates", err)
	}
	if err := c.root.LookupPath(kindPath).Decode(&s.Kind); err != nil {
		return nil, explainCUE("check templates: kind", err)
	}
	if err := s.loadKinds(c.root); err != nil {
		return nil, err
	}
	if faults := src.strangers(inst); len(faults) > 0 {
		return nil, &TemplateError{What: "check templates", Faults: faults}
	}
	if err := s.loadContract(inst); err != nil {
		return nil, err
	}
	if src.Many {
		if err := s.freeze(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// compileInstance compiles an instance in a context of its own: what is compiled stays in its context for ever.
func compileInstance(inst *build.Instance) *compiled {
	ctx := newContext()
	return &compiled{ctx: ctx, root: ctx.BuildInstance(inst)}
}

// Rest gives back the memory of what is compiled, some MiB, until something is rendered again, which then compiles it anew. It is for a
// package that nothing is rendered with for now. The files of the [Source] must still be there, and the same.
func (s *Set) Rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compiled = nil
}

// awake is what to render with.
func (s *Set) awake() (*compiled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compiled == nil {
		again, err := Load(s.source)
		if err != nil {
			return nil, fmt.Errorf("compile templates again: %w", err)
		}
		s.compiled = again.compiled
	}
	return s.compiled, nil
}

// instance parses the files of the template package.
func (s Source) instance() (*build.Instance, error) {
	fsys, dir, err := s.files()
	if err != nil {
		return nil, err
	}
	name := func(p string) string {
		p = strings.TrimPrefix(p, "/")
		rest, ok := strings.CutPrefix(p, path.Join(s.Package, siteDir)+"/")
		switch {
		case ok && s.Settings != nil && rest == settingsFile:
			return s.SettingsName
		case ok && s.Site != nil:
			return path.Join(s.SiteName, rest)
		}
		return p
	}
	inst := load.Instances([]string{"./" + dir}, &load.Config{FS: fsys, Dir: "/", FromFSPath: name})[0]
	if inst.Err != nil {
		return nil, explainCUE("load templates", inst.Err)
	}
	return inst, nil
}

// strangers finds fields of a site that the templates know nothing of, and that nothing refers to: a slip of the pen would
// silently do nothing. What a site needs for itself are hidden fields and definitions.
func (s Source) strangers(inst *build.Instance) Faults {
	if s.Site == nil {
		return nil
	}
	known, used := map[string]bool{}, map[string]bool{}
	for _, f := range inst.Files {
		for _, d := range f.Decls {
			for _, name := range references(d) {
				used[name] = true
			}
			if builtIn(strings.TrimPrefix(d.Pos().Filename(), "/")) {
				known[declName(d)] = true
			}
		}
	}
	var faults Faults
	for _, f := range inst.Files {
		for _, d := range f.Decls {
			name, pos := declName(d), d.Pos()
			if name == "" || known[name] || used[name] || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
				continue
			}
			faults = append(faults, Fault{
				File: pos.Filename(), Line: pos.Line(), Column: pos.Column(), Path: name,
				Message: "unknown field" + nearest(name, regular(known)) + "; a site's own fields begin with _ or #",
			})
		}
	}
	return faults
}

// regular are the names that are neither hidden nor of definitions.
func regular(names map[string]bool) []string {
	var out []string
	for _, n := range sortedKeys(names) {
		if n != "" && !strings.HasPrefix(n, "_") && !strings.HasPrefix(n, "#") {
			out = append(out, n)
		}
	}
	return out
}

// loadContract finds the kind's definition in the schema package that the templates import.
func (s *Set) loadContract(inst *build.Instance) error {
	if !s.compiled.loadSchema(inst, s.Kind) {
		return fmt.Errorf("check templates: the package does not import a package schema")
	}
	if err := s.compiled.definition.Err(); err != nil {
		return explainCUE("check templates: schema", err)
	}
	var err error
	if s.contract, err = compileContract(s.compiled.definition); err != nil {
		return fmt.Errorf("check templates: schema: %w", err)
	}
	// What a custom resource has that is not its user's to write.
	s.contract.fields["status"] = &fieldContract{contract: &contract{anything: true}}
	return nil
}

// loadSchema finds what the schema package that an instance imports says of a kind; false if there is no such package.
func (c *compiled) loadSchema(inst *build.Instance, kind Kind) bool {
	i := slices.IndexFunc(inst.Imports, func(imp *build.Instance) bool { return imp.PkgName == "schema" })
	if i < 0 {
		return false
	}
	schema := c.ctx.BuildInstance(inst.Imports[i])
	c.definition = schema.LookupPath(cue.MakePath(cue.Def(kind.Kind)))
	c.rules = schema.LookupPath(cue.MakePath(cue.Def(kind.Kind + "Faults")))
	return true
}

// Definition is the contract of the kind in CUE: schema.#Kind.
func (s *Set) Definition() (cue.Value, error) {
	c, err := s.awake()
	if err != nil {
		return cue.Value{}, err
	}
	return c.definition, nil
}

// revisionOf is a digest of the files that an instance and its imports are made of.
func revisionOf(inst *build.Instance) string {
	files := map[string]bool{}
	addFiles(files, inst, map[*build.Instance]bool{})
	h := sha256.New()
	for _, f := range sortedKeys(files) {
		fmt.Fprintln(h, f)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// addFiles adds the files of an instance, and of those that it imports, each with its name.
func addFiles(files map[string]bool, inst *build.Instance, seen map[*build.Instance]bool) {
	if seen[inst] {
		return
	}
	seen[inst] = true
	for _, f := range inst.Files {
		text, err := format.Node(f)
		if err != nil {
			// A file that was parsed can be printed.
			panic(err)
		}
		files[path.Base(f.Filename)+"\n"+string(text)] = true
	}
	for _, i := range inst.Imports {
		addFiles(files, i, seen)
	}
}
