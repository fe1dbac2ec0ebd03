package cuvee_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cuelang.org/go/cue/parser"
)

const module = "github.com/cuvee-vm/cuvee"

// What the Go code of each room must not reach, neither itself nor through something that it imports. A
// name stands for the package and everything below it.
var goRooms = map[string][]string{
	"render": {
		module + "/cmd", module + "/controller", module + "/runner", module + "/tools",
		"k8s.io/client-go", "sigs.k8s.io/controller-runtime",
		"github.com/digitalocean/go-qemu",
	},
	"controller": {
		module + "/cmd", module + "/runner", module + "/tools",
		"github.com/digitalocean/go-qemu",
	},
	"runner": {
		module + "/cmd", module + "/controller", module + "/render", module + "/tools",
		module + "/schema", module + "/templates",
		"cuelang.org/go",
		"github.com/google/go-containerregistry", // the node gets images
	},
	"cmd": {module + "/tools"},
}

// Which other CUE of this repository the CUE of each room may import. The builtin packages of CUE are free
// for all.
var cueRooms = map[string][]string{
	"schema":    {module + "/schema"},
	"templates": {module + "/schema", module + "/templates"},
}

// testRoom is what only tests import, and bench/: it may import what they do.
const testRoom = module + "/controller/testserver"

// TestGoImports holds the code to the rooms of CONTRIBUTING.md.
func TestGoImports(t *testing.T) {
	imports := goImports(t)
	for room, banned := range goRooms {
		t.Run(room, func(t *testing.T) {
			for pkg := range imports {
				if !within(pkg, module+"/"+room) || within(pkg, testRoom) {
					continue
				}
				if chain := findImport(imports, pkg, banned); chain != nil {
					t.Errorf("%s/ must not import %s:\n\t%s", room, chain[len(chain)-1], strings.Join(chain, "\n\timports "))
				}
			}
		})
	}
}

// TestCUEImports does the same for the schema and the templates.
func TestCUEImports(t *testing.T) {
	for room, allowed := range cueRooms {
		t.Run(room, func(t *testing.T) {
			for _, file := range cueFiles(t, room) {
				parsed, err := parser.ParseFile(file, nil, parser.ImportsOnly)
				if err != nil {
					t.Errorf("parse %s: %v", file, err)
					continue
				}
				for spec := range parsed.ImportSpecs() {
					path, err := strconv.Unquote(spec.Path.Value)
					if err != nil {
						t.Fatalf("import in %s: %v", file, err)
					}
					// Only a path with a domain is outside of CUE's own packages. What follows
					// "@" is a version, what follows ":" the name of the package.
					path, _, _ = strings.Cut(path, ":")
					path, _, _ = strings.Cut(path, "@")
					domain, _, _ := strings.Cut(path, "/")
					if strings.Contains(domain, ".") && !withinAny(path, allowed) {
						t.Errorf("%s: %s/ must not import %s", file, room, path)
					}
				}
			}
		})
	}
}

// goImports returns, for each package of this module and each one that it needs, what it imports.
func goImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}

	imports := map[string][]string{}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return imports
		}
		if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		imports[pkg.ImportPath] = pkg.Imports
	}
}

// findImport returns the shortest chain of imports from pkg to something banned, or nil.
func findImport(imports map[string][]string, pkg string, banned []string) []string {
	seen := map[string]bool{pkg: true}
	queue := [][]string{{pkg}}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		for _, next := range imports[chain[len(chain)-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := slices.Concat(chain, []string{next})
			if withinAny(next, banned) {
				return longer
			}
			queue = append(queue, longer)
		}
	}
	return nil
}

// cueFiles returns the CUE files of a room. A room that is not there has none.
func cueFiles(t *testing.T, room string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(room, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".cue" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("list %s: %v", room, err)
	}
	return files
}

func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

func withinAny(path string, parents []string) bool {
	for _, parent := range parents {
		if within(path, parent) {
			return true
		}
	}
	return false
}
