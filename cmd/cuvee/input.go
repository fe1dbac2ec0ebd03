package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	managerConfigFlags
	files     []string
	site      string
	namespace string
}

func (f *inputFlags) bind(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "a file, a directory (its *.yaml, *.yml and *.json files), or - for standard input; may be repeated")
	flags.StringVar(&f.site, "site", "", "a directory with a site's CUE files, or with a whole CUE module to use instead of the built-in one")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the namespace of objects that name none")
}

// bindConfig binds the flag for the manager's configuration, which a VM on this machine has nothing of.
func (f *inputFlags) bindConfig(flags *pflag.FlagSet) {
	f.managerConfigFlags.bind(flags, "without it the settings are the defaults and the site's")
}

// load reads the documents. Those of the set's kind are to be rendered, all others stand for what is in the cluster.
func (f *inputFlags) load(cmd *cobra.Command, set *render.Set) (inputs, others []render.Document, err error) {
	docs, err := f.read(cmd)
	if err != nil {
		return nil, nil, err
	}
	return f.split(cmd, set, docs)
}

// split parts what is to be rendered with a set from what stands for the cluster.
func (f *inputFlags) split(cmd *cobra.Command, set *render.Set, docs []render.Document) (inputs, others []render.Document, err error) {
	inputs, others = ofKind(cmd.ErrOrStderr(), docs, set.Kind, slices.Collect(maps.Values(set.Watches))...)
	if len(inputs) == 0 {
		return nil, nil, fmt.Errorf("no %s in %s", set.Kind.Kind, f.named())
	}
	return inputs, others, nil
}

// read reads all documents.
func (f *inputFlags) read(cmd *cobra.Command) ([]render.Document, error) {
	if len(f.files) == 0 {
		return nil, usage(cmd, errors.New("name a file with -f"))
	}
	var all []render.Document
	var faults render.Faults
	for _, name := range f.files {
		docs, err := readDocuments(cmd.InOrStdin(), name)
		var found render.Faults
		if errors.As(err, &found) {
			faults = append(faults, found...)
		} else if err != nil {
			return nil, err
		}
		for _, d := range docs {
			if f.namespace != "" {
				setNamespace(d.Object, f.namespace)
			}
			all = append(all, d)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// ofKind are the documents of a kind, and the others. Those that are neither of the kind, though of its group, nor looked up are noted.
func ofKind(notes io.Writer, docs []render.Document, kind render.Kind, lookups ...render.Lookup) (inputs, others []render.Document) {
	for _, d := range docs {
		if d.Object["kind"] == kind.Kind && !isKubeVirts(d) {
			inputs = append(inputs, d)
			continue
		}
		lookedUp := slices.ContainsFunc(lookups, func(l render.Lookup) bool {
			return d.Object["apiVersion"] == l.APIVersion && d.Object["kind"] == l.Kind
		})
		if d.Object["apiVersion"] == kind.APIVersion() && !lookedUp {
			fmt.Fprintf(notes, "note: %s: a %v is nothing that is rendered here, it is left out\n", d.File, d.Object["kind"])
		}
		others = append(others, d)
	}
	return inputs, others
}

// isKubeVirts says that a document is KubeVirt's VirtualMachine, which stands for one in the cluster. One of any other group is taken
// for a slip of the pen.
func isKubeVirts(d render.Document) bool {
	return d.Object["apiVersion"] == "kubevirt.io/v1"
}

// packages are the template packages whose kinds are among the documents; that of VirtualMachines if there are none.
func (f *inputFlags) packages(docs []render.Document) ([]string, error) {
	src, err := f.source(vmTemplates)
	if err != nil {
		return nil, err
	}
	kinds, err := render.Kinds(src.Module)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, pkg := range slices.Backward(slices.Sorted(maps.Keys(kinds))) {
		k := kinds[pkg]
		if slices.ContainsFunc(docs, func(d render.Document) bool {
			return d.Object["kind"] == k.Kind && (d.Object["apiVersion"] == k.APIVersion() || pkg == vmTemplates && !isKubeVirts(d))
		}) {
			out = append(out, pkg)
		}
	}
	if len(out) == 0 {
		return []string{vmTemplates}, nil
	}
	return out, nil
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
func (f *inputFlags) templates(notes io.Writer, pkg string) (*render.Set, error) {
	src, err := f.source(pkg)
	if err != nil {
		return nil, err
	}
	config, err := f.managerConfigFlags.read(notes)
	if err != nil {
		return nil, err
	}
	if config != nil && isVMs(pkg) {
		src.Settings, src.SettingsName = []byte(config.Settings), f.config
	}
	return render.Load(src)
}

// isVMs says that a template package is that of VirtualMachines, or an overlay of it.
func isVMs(pkg string) bool { return pkg == vmTemplates || strings.HasPrefix(pkg, vmTemplates+"/") }

// source is what a template package is loaded from. A site need not have files for a package other than that of VirtualMachines.
func (f *inputFlags) source(pkg string) (render.Source, error) {
	src := render.Source{Module: cuvee.Files, Package: pkg}
	if f.site == "" {
		return src, nil
	}
	info, err := os.Stat(f.site)
	switch {
	case err != nil:
		return src, fmt.Errorf("open site: %w", err)
	case !info.IsDir():
		return src, fmt.Errorf("open site: %s is not a directory", f.site)
	}
	site := os.DirFS(f.site)
	if _, err := os.Stat(filepath.Join(f.site, "cue.mod", "module.cue")); err == nil {
		src.Module = site
		return src, nil
	}
	if isVMs(pkg) || render.HasPackage(site, filepath.Base(pkg)) {
		src.Site, src.SiteName = site, f.site
	}
	return src, nil
}
