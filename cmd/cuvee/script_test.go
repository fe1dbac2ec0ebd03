package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	cuecmd "cuelang.org/go/cmd/cue/cmd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cuvee-vm/cuvee"
)

var update = flag.Bool("update", false, "write what the scripts' commands print into the scripts")

// TestMain makes this program, and the stock cue command of the version that it is built with, commands of the scripts.
// Each runs in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"cuvee":        main,
		pluginName:     main,
		pluginComplete: main,
		"cue":          func() { os.Exit(cuecmd.Main()) },
	})
}

// tests are all tests, with what is cleaned up after them.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer stopAPIServer()
	return t.M.Run()
}

// TestScripts runs the scripts of testdata/script: one behaviour a file, with what goes in and what comes out.
//
//	go test ./cmd/cuvee -run TestScripts -update
//
// Each script finds the custom resources of testdata/vm in the directory vm. Besides testscript's own commands
// it has those of scriptCommands.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script"),
		Setup:               setUpScript,
		Cmds:                scriptCommands,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func setUpScript(env *testscript.Env) error {
	// The user's own settings of CUE shall not matter, and nothing shall be looked for in a network.
	env.Setenv("CUE_REGISTRY", "none")
	env.Setenv("CUE_CACHE_DIR", filepath.Join(env.WorkDir, ".cue-cache"))
	return os.CopyFS(filepath.Join(env.WorkDir, "vm"), os.DirFS(filepath.Join("..", "..", "testdata", "vm")))
}

// layModule writes the CUE that this program carries into a directory.
func layModule(dir string) error {
	return fs.WalkDir(cuvee.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := cuvee.Files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}
