package templateset

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"testing/fstest"

	"cuelang.org/go/cue/parser"
)

// Set is all packages of a site at one moment, for programs that do not follow its directory as a [Store] does.
type Set struct {
	// Packages are sorted by name.
	Packages []Package
	// Accepts says whether the site accepts that a custom resource ("VirtualMachine default/web") does not render any more.
	Accepts func(object string) bool
}

// Files are those of a site.
type Files struct {
	builtIn fs.FS
	files   snapshot
	// dir is where they are; empty if they were kept.
	dir string
	// settings is how messages call what the settings are from.
	settings string
}

// ReadDirectory reads a site's directory.
func ReadDirectory(builtIn fs.FS, dir string) (Files, error) {
	files, err := readDirectory(dir)
	return Files{builtIn: builtIn, files: files, dir: dir}, err
}

// ReadKept reads what a [Keeper] has kept. Nothing is a site without files: what is built in.
func ReadKept(builtIn fs.FS, kept []byte) (Files, error) {
	files := snapshot{}
	if kept != nil {
		if err := json.Unmarshal(kept, &files); err != nil {
			return Files{}, fmt.Errorf("read the templates that were kept: %w", err)
		}
	}
	return Files{builtIn: builtIn, files: files, settings: "the manager's configuration"}, nil
}

// WithSettings are the files with these settings, which [Settings] says more about, in the place of those that they had. The name is how
// messages call the file that they are from.
func (f Files) WithSettings(name, text string) Files {
	f.files, f.settings = maps.Clone(f.files), name
	f.files[settingsFile] = text
	return f
}

// WithSettingsOf are the files with the settings of others, if those have some.
func (f Files) WithSettingsOf(others Files) Files {
	if !others.files.hasSettings() {
		return f
	}
	return f.WithSettings(others.settings, others.files[settingsFile])
}

// Vet checks the files as a [Store] does before it takes them, but for the custom resources of a cluster.
func (f Files) Vet() error {
	if _, err := parseAccepted(f.files[AcceptFile]); err != nil {
		return f.named(err)
	}
	_, err := compile(f.builtIn, f.files, false)
	return f.named(err)
}

// Load compiles the packages and tries their cases, as a [Store] does before it takes them.
func (f Files) Load() (Set, error) {
	list, err := parseAccepted(f.files[AcceptFile])
	if err != nil {
		return Set{}, f.named(err)
	}
	packages, err := compile(f.builtIn, f.files, true)
	return Set{Packages: packages, Accepts: list.has}, f.named(err)
}

func (f Files) named(err error) error {
	return renameFaults(err, func(file string) string {
		if file == settingsCUE && f.settings != "" {
			return f.settings
		}
		if _, ok := f.files[file]; ok {
			return path.Join(f.dir, file)
		}
		return file
	})
}

// Module is the CUE module that the packages are made from, for the stock cue command: a site's own files for a package that is built in
// are in its directory site.
func (f Files) Module() (fstest.MapFS, error) {
	c := compiler{site: f.files, own: map[string]bool{}}
	if err := c.merge(f.builtIn); err != nil {
		return nil, f.named(err)
	}
	for name, text := range c.site {
		as, ok := cueName(name)
		if !ok {
			continue
		}
		parsed, err := parser.ParseFile(as, text, parser.PackageClauseOnly)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path.Join(f.dir, as), err)
		}
		c.module[path.Join("templates", parsed.PackageName(), "site", as)] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	return c.module, nil
}
