package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// inputFlags say what is rendered, and with which templates.
type inputFlags struct {
	files     []string
	site      string
	namespace string
}

func (f *inputFlags) bind(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "a file, a directory (its *.yaml, *.yml and *.json files), or - for standard input; may be repeated")
	flags.StringVar(&f.site, "site", "", "a directory with a site's CUE files, or with a whole CUE module to use instead of the built-in one")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the namespace of objects that name none")
}

// load reads the documents. Those of the set's kind are to be rendered, all others stand for what is in the cluster.
func (f *inputFlags) load(cmd *cobra.Command, set *render.Set) (inputs, others []render.Document, err error) {
	if len(f.files) == 0 {
		return nil, nil, usage(cmd, errors.New("name a file with -f"))
	}
	var faults render.Faults
	for _, name := range f.files {
		docs, err := readDocuments(cmd.InOrStdin(), name)
		var found render.Faults
		if errors.As(err, &found) {
			faults = append(faults, found...)
		} else if err != nil {
			return nil, nil, err
		}
		for _, d := range docs {
			if f.namespace != "" {
				setNamespace(d.Object, f.namespace)
			}
			if d.Object["kind"] == set.Kind.Kind {
				inputs = append(inputs, d)
				continue
			}
			if d.Object["apiVersion"] == set.Kind.APIVersion() {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %s: a %v is nothing that is rendered here, it is left out\n", d.File, d.Object["kind"])
			}
			others = append(others, d)
		}
	}
	if len(faults) > 0 {
		return nil, nil, faults
	}
	if len(inputs) == 0 {
		return nil, nil, fmt.Errorf("no %s in %s", set.Kind.Kind, f.named())
	}
	return inputs, others, nil
}

// named lists what was read.
func (f *inputFlags) named() string {
	names := slices.Clone(f.files)
	if i := slices.Index(names, "-"); i >= 0 {
		names[i] = "standard input"
	}
	return strings.Join(names, ", ")
}

func setNamespace(object map[string]any, namespace string) {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	if _, ok := metadata["namespace"]; !ok {
		metadata["namespace"] = namespace
	}
}

// readDocuments reads a file, the files of a directory, or standard input.
func readDocuments(stdin io.Reader, name string) ([]render.Document, error) {
	if name == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return render.Decode("<stdin>", data)
	}
	names, err := expand(name)
	if err != nil {
		return nil, err
	}
	var docs []render.Document
	var faults render.Faults
	for _, n := range names {
		data, err := os.ReadFile(n)
		if err != nil {
			return nil, err
		}
		d, err := render.Decode(n, data)
		var found render.Faults
		if errors.As(err, &found) {
			faults = append(faults, found...)
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, d...)
	}
	if len(faults) > 0 {
		return docs, faults
	}
	return docs, nil
}

// expand names the files that a name stands for: itself, or a directory's manifests, sorted.
func expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var names []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".yaml", ".yml", ".json":
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no *.yaml, *.yml or *.json file in %s", name)
	}
	sort.Strings(names)
	return names, nil
}

// templates loads the template package, with the site's files if there are some.
func (f *inputFlags) templates(pkg string) (*render.Set, error) {
	src := render.Source{Module: cuvee.Files, Package: pkg}
	if f.site != "" {
		info, err := os.Stat(f.site)
		switch {
		case err != nil:
			return nil, fmt.Errorf("open site: %w", err)
		case !info.IsDir():
			return nil, fmt.Errorf("open site: %s is not a directory", f.site)
		}
		if _, err := os.Stat(filepath.Join(f.site, "cue.mod", "module.cue")); err == nil {
			src.Module = os.DirFS(f.site)
		} else {
			src.Site, src.SiteName = os.DirFS(f.site), f.site
		}
	}
	return render.Load(src)
}
