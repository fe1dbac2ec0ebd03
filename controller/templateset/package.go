package templateset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"

	"cuelang.org/go/cue/parser"

	"github.com/cuvee-vm/cuvee/render"
)

// Package is a template package, compiled. It serves one kind of custom resource.
type Package struct {
	// Name is that of its directory: vm.
	Name string
	// Owner is the field owner of all that is applied for it. It never changes: cuvee.vm.
	Owner string
	// Set renders.
	Set *render.Set
	// Revision is a digest of the files that it is made from.
	Revision string
}

// moduleFile marks a directory that is a whole CUE module, to be used instead of what is built in.
const moduleFile = "cue.mod/module.cue"

var packageName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,29}$`)

// compiler puts the built-in module and a site's files together.
type compiler struct {
	module fstest.MapFS
	site   snapshot
	// own are the packages that are the site's.
	own map[string]bool
	// many is for sets that render many times.
	many bool
}

// compile makes the packages of a module and a site, and tries their cases. Its errors say in which file and line what is wrong.
func compile(builtIn fs.FS, site snapshot, many bool) (packages []Package, err error) {
	// What a site writes shall not end the manager, whatever CUE makes of it.
	defer func() {
		if r := recover(); r != nil {
			packages, err = nil, fmt.Errorf("CUE failed with %q: please report this, with the files", fmt.Sprint(r))
		}
	}()
	c := compiler{site: maps.Clone(site), own: map[string]bool{}, many: many}
	if err := c.merge(builtIn); err != nil {
		return nil, err
	}
	names, err := fs.Glob(c.module, "templates/*/package.cue")
	if err != nil {
		return nil, err
	}
	if err := c.checkRootFiles(names); err != nil {
		return nil, err
	}
	for _, n := range names {
		p, err := c.compile(path.Base(path.Dir(n)))
		if err != nil {
			if len(faultsOf(err)) == 0 {
				err = fmt.Errorf("%s: %w", path.Base(path.Dir(n)), err)
			}
			return nil, c.siteNames(err)
		}
		for _, other := range packages {
			if other.Set.Kind.Group == p.Set.Kind.Group && other.Set.Kind.Kind == p.Set.Kind.Kind {
				return nil, fmt.Errorf("%s: %s of %s is served by the package %s", p.Name, p.Set.Kind.Kind, p.Set.Kind.APIVersion(), other.Name)
			}
		}
		packages = append(packages, p)
	}
	return packages, c.siteNames(c.tryCases(packages))
}

// merge puts the directories of the site beside the built-in packages.
func (c *compiler) merge(builtIn fs.FS) error {
	if _, ok := c.site[moduleFile]; ok {
		c.module = c.site.files(func(name string) (string, bool) { return name, name != settingsFile })
		maps.DeleteFunc(c.site, func(name, _ string) bool { return name != settingsFile })
		return nil
	}
	c.module = fstest.MapFS{}
	err := fs.WalkDir(builtIn, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(builtIn, name)
		c.module[name] = &fstest.MapFile{Data: data, Mode: 0o444}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the built-in templates: %w", err)
	}
	for name, text := range c.site {
		dir, _, inside := strings.Cut(name, "/")
		if !inside || dir == render.CaseDir {
			continue
		}
		if err := c.checkPackage(dir); err != nil {
			return err
		}
		c.own[dir] = true
		c.module["templates/"+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	return nil
}

// checkPackage says what is wrong with a directory of the site as a package.
func (c *compiler) checkPackage(dir string) error {
	if c.own[dir] {
		return nil
	}
	if !packageName.MatchString(dir) {
		return fmt.Errorf("%s: a directory is a template package, and its name begins with a small letter and has only those, digits and _", dir)
	}
	if _, ok := c.module["templates/"+dir+"/package.cue"]; ok {
		return fmt.Errorf("%s: a package of this name is built in; files that change it are in the directory itself, with the line: package %s", dir, dir)
	}
	text, ok := c.site[dir+"/package.cue"]
	if !ok {
		return fmt.Errorf("%s: a directory is a template package, and has a file package.cue", dir)
	}
	if f, err := parser.ParseFile("package.cue", text, parser.PackageClauseOnly); err == nil && f.PackageName() != dir {
		return render.Faults{{File: dir + "/package.cue", Line: 1, Column: 1, Message: fmt.Sprintf("the package is called %q, want %q, as the directory", f.PackageName(), dir)}}
	}
	return nil
}

// checkRootFiles finds files of the site that would change no package.
func (c *compiler) checkRootFiles(packages []string) error {
	var known []string
	for _, p := range packages {
		known = append(known, path.Base(path.Dir(p)))
	}
	for name, text := range c.site {
		as, ok := cueName(name)
		if !ok {
			continue
		}
		if name == settingsCUE {
			return render.Faults{{File: name, Line: 1, Column: 1, Message: "this name is taken by the manager's configuration, want another one"}}
		}
		f, err := parser.ParseFile(as, text, parser.PackageClauseOnly)
		if err != nil {
			continue // Every package reports it, with the line.
		}
		if f.PackageName() == "" {
			return render.Faults{{File: name, Line: 1, Column: 1, Message: "there is no package clause, want for instance: package vm"}}
		}
		if !slices.Contains(known, f.PackageName()) {
			return render.Faults{{File: as, Line: 1, Column: 1, Message: fmt.Sprintf("there is no template package %q, known are %s", f.PackageName(), strings.Join(known, ", "))}}
		}
	}
	return nil
}

// cueName is how CUE knows a file of the site that changes a package; false for all others.
func cueName(file string) (as string, ok bool) {
	if file == settingsFile {
		return settingsCUE, true
	}
	return file, !strings.Contains(file, "/") && strings.HasSuffix(file, ".cue")
}

func (c *compiler) compile(name string) (Package, error) {
	src := render.Source{Module: c.module, Package: "templates/" + name, Many: c.many}
	site := c.site.files(func(file string) (string, bool) {
		as, ok := cueName(file)
		if !ok {
			return "", false
		}
		f, err := parser.ParseFile(as, c.site[file], parser.PackageClauseOnly)
		return as, err != nil || f.PackageName() == name
	})
	if len(site) > 0 {
		src.Site = site
	}
	set, err := render.Load(src)
	if err != nil {
		return Package{}, err
	}
	return Package{Name: name, Owner: "cuvee." + name, Set: set, Revision: set.Revision}, nil
}

// tryCases renders the cases of the packages, and those of the site. A site may refuse what the built-in cases ask for, as
// it may allow less; to fail on it is a fault of its templates.
func (c *compiler) tryCases(packages []Package) error {
	var kinds []render.Kind
	for _, p := range packages {
		kinds = append(kinds, p.Set.Kind)
		cases, err := render.ReadCases(c.module, path.Join("templates", p.Name, render.CaseDir), p.Set.Kind)
		if err != nil {
			return err
		}
		mayRefuse := len(c.site) > 0 && !c.own[p.Name]
		if err := try(p.Set, cases, mayRefuse); err != nil {
			return err
		}
	}
	cases, err := render.ReadCases(c.site.files(func(name string) (string, bool) { return name, true }), render.CaseDir, kinds...)
	if err != nil {
		return err
	}
	for _, p := range packages {
		if err := try(p.Set, cases, false); err != nil {
			return err
		}
	}
	return nil
}

func try(set *render.Set, cases []render.Case, mayRefuse bool) error {
	for _, c := range cases {
		err := set.Try(c)
		var refused render.Faults
		if mayRefuse && errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
