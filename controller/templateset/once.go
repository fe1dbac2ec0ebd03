package templateset

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
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
}

// ReadDirectory reads a site's directory.
func ReadDirectory(builtIn fs.FS, dir string) (Files, error) {
	files, err := readDirectory(dir)
	return Files{builtIn, files, dir}, err
}

// ReadKept reads what a [Keeper] has kept. Nothing is a site without files: what is built in.
func ReadKept(builtIn fs.FS, kept []byte) (Files, error) {
	files := snapshot{}
	if kept != nil {
		if err := json.Unmarshal(kept, &files); err != nil {
			return Files{}, fmt.Errorf("read the templates that were kept: %w", err)
		}
	}
	return Files{builtIn, files, ""}, nil
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
		if strings.Contains(name, "/") || !strings.HasSuffix(name, ".cue") {
			continue
		}
		parsed, err := parser.ParseFile(name, text, parser.PackageClauseOnly)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path.Join(f.dir, name), err)
		}
		c.module[path.Join("templates", parsed.PackageName(), "site", name)] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	return c.module, nil
}
