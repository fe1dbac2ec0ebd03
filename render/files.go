package render

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing/fstest"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/parser"
)

// siteDir is the directory, below that of the template package, that a site's files are laid into. CUE unifies
// the files of a package with those of the same package in the directories above, so they need no import.
const siteDir = "site"

// settingsFile is the name of [Source.Settings] among a site's files.
const settingsFile = "settings.of.config.cue"

// Source says what a template set is loaded from.
type Source struct {
	// Module is the CUE module with the template packages, for example cuvee.Files.
	Module fs.FS
	// Package is the directory of the template package in the module, for example "templates/vm" or an overlay
	// of it, "templates/vm/local".
	Package string
	// Site holds a site's *.cue files at its root; nil if there are none. Those of other packages than the
	// template package's are for other kinds, and left out here.
	Site fs.FS
	// SiteName is how messages call the site's directory.
	SiteName string
	// Settings is one more CUE file of the site, which stands in no directory; nil if there is none. It is left out as those of Site are.
	Settings []byte
	// SettingsName is how messages call what the settings are from.
	SettingsName string
	// Many says that the set will render many times: it then takes longer to load, and less to render.
	Many bool
}

// files returns the module's files with the site's laid over them, and the directory to load.
func (s Source) files() (fs.FS, string, error) {
	if s.Site == nil && s.Settings == nil {
		return s.Module, s.Package, nil
	}
	name, err := packageName(s.Module, s.Package)
	if err != nil {
		return nil, "", err
	}
	merged, err := readAll(s.Module)
	if err != nil {
		return nil, "", fmt.Errorf("read templates: %w", err)
	}
	dir := path.Join(s.Package, siteDir)
	found, err := s.addSettings(merged, dir, name)
	if err != nil {
		return nil, "", err
	}
	if s.Site == nil {
		if !found {
			dir = s.Package
		}
		return merged, dir, nil
	}
	entries, err := fs.ReadDir(s.Site, ".")
	if err != nil {
		return nil, "", fmt.Errorf("read site files: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".cue") {
			continue
		}
		data, err := fs.ReadFile(s.Site, e.Name())
		if err != nil {
			return nil, "", fmt.Errorf("read site files: %w", err)
		}
		if p, err := parser.ParseFile(e.Name(), data, parser.PackageClauseOnly); err == nil && p.PackageName() != name {
			if p.PackageName() == "" {
				return nil, "", fmt.Errorf("read site files: %s has no package clause, want: package %s", path.Join(s.SiteName, e.Name()), name)
			}
			continue
		}
		merged[path.Join(dir, e.Name())] = &fstest.MapFile{Data: data, Mode: 0o444}
		found = true
	}
	if !found {
		return nil, "", fmt.Errorf("read site files: no *.cue file of package %s in %s", name, s.SiteName)
	}
	return merged, dir, nil
}

// addSettings lays the settings into a directory, if they are for the package of this name.
func (s Source) addSettings(files fstest.MapFS, dir, name string) (found bool, err error) {
	if s.Settings == nil {
		return false, nil
	}
	f, err := parser.ParseFile(s.SettingsName, s.Settings, parser.PackageClauseOnly)
	if err != nil {
		return false, explainCUE("load templates", err)
	}
	if f.PackageName() != name {
		return false, nil
	}
	files[path.Join(dir, settingsFile)] = &fstest.MapFile{Data: s.Settings, Mode: 0o444}
	return true, nil
}

// packageName is the name of the CUE package in a directory.
func packageName(fsys fs.FS, dir string) (string, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.cue"))
	if err != nil {
		return "", err
	}
	for _, n := range names {
		data, err := fs.ReadFile(fsys, n)
		if err != nil {
			return "", fmt.Errorf("read templates: %w", err)
		}
		if f, err := parser.ParseFile(n, data, parser.PackageClauseOnly); err == nil && f.PackageName() != "" {
			return f.PackageName(), nil
		}
	}
	return "", fmt.Errorf("read templates: no CUE package in %s", dir)
}

// HasPackage says whether a directory has a file of a CUE package at its root.
func HasPackage(fsys fs.FS, name string) bool {
	files, err := fs.Glob(fsys, "*.cue")
	if err != nil {
		return false
	}
	for _, n := range files {
		if f, err := parser.ParseFile(n, readOrNothing(fsys, n), parser.PackageClauseOnly); err == nil && f.PackageName() == name {
			return true
		}
	}
	return false
}

func readOrNothing(fsys fs.FS, name string) []byte {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil
	}
	return data
}

// Kinds are the kinds of the template packages of a module, by the packages' directories. It reads no more than the files that
// say them.
func Kinds(module fs.FS) (map[string]Kind, error) {
	files, err := fs.Glob(module, "templates/*/package.cue")
	if err != nil {
		return nil, err
	}
	out := map[string]Kind{}
	for _, name := range files {
		f, err := parser.ParseFile(name, readOrNothing(module, name))
		if err != nil {
			return nil, explainCUE("read templates", err)
		}
		for _, d := range f.Decls {
			field, ok := d.(*ast.Field)
			if !ok || declName(d) != "kind" {
				continue
			}
			var k Kind
			if err := cuecontext.New().BuildExpr(field.Value).Decode(&k); err != nil {
				return nil, explainCUE("read templates: kind", err)
			}
			out[path.Dir(name)] = k
		}
	}
	return out, nil
}

// readAll copies the CUE files of a module into memory.
func readAll(fsys fs.FS) (fstest.MapFS, error) {
	out := fstest.MapFS{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(name, ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".cue") {
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		out[name] = &fstest.MapFile{Data: data, Mode: 0o444}
		return nil
	})
	return out, err
}
