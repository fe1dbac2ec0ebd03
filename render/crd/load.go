package crd

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"

	"github.com/cuvee-vm/cuvee/render"
)

// Kind is a kind of custom resource with all that the CUE module says of it.
type Kind struct {
	render.Kind
	// Definition is the contract, #<Kind> of the package schema.
	Definition cue.Value
	// Status is the contract of its status, #<Kind>Status; it does not exist where a kind has no status.
	Status cue.Value
	// Templates is the template package, with the site settings and their defaults.
	Templates cue.Value

	// The names and columns of the CustomResourceDefinition, #<Kind>CRD.
	more cue.Value
}

// Load finds the kinds of a CUE module: those that the packages in templates/ are for.
func Load(module fs.FS) ([]Kind, error) {
	dirs, err := fs.Glob(module, "templates/*/package.cue")
	if err != nil {
		return nil, err
	}
	ctx := cuecontext.New()
	var kinds []Kind
	for _, d := range dirs {
		k, err := loadKind(ctx, module, path.Dir(d))
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", path.Dir(d), err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// All are the kinds of Load, and those that only the package schema has: what others write, and templates look at. Their
// definition #<Kind>CRD says in kind what templates would say.
func All(module fs.FS) ([]Kind, error) {
	kinds, err := Load(module)
	if err != nil {
		return nil, err
	}
	inst := load.Instances([]string{"./schema"}, &load.Config{FS: module, Dir: "/"})[0]
	if inst.Err != nil {
		return nil, inst.Err
	}
	schema := cuecontext.New().BuildInstance(inst)
	it, err := schema.Fields(cue.Definitions(true))
	if err != nil {
		return nil, err
	}
	for it.Next() {
		names := it.Value().LookupPath(cue.ParsePath("kind"))
		if !strings.HasSuffix(it.Selector().String(), "CRD") || !names.Exists() || !names.IsConcrete() {
			continue
		}
		k := Kind{more: it.Value()}
		if err := names.Decode(&k.Kind); err != nil {
			return nil, err
		}
		k.Definition = schema.LookupPath(cue.MakePath(cue.Def(k.Kind.Kind)))
		if err := k.Definition.Err(); err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func loadKind(ctx *cue.Context, module fs.FS, dir string) (Kind, error) {
	inst := load.Instances([]string{"./" + dir}, &load.Config{FS: module, Dir: "/"})[0]
	if inst.Err != nil {
		return Kind{}, inst.Err
	}
	k := Kind{Templates: ctx.BuildInstance(inst)}
	if err := k.Templates.LookupPath(cue.ParsePath("kind")).Decode(&k.Kind); err != nil {
		return Kind{}, err
	}
	i := slices.IndexFunc(inst.Imports, func(imp *build.Instance) bool { return imp.PkgName == "schema" })
	if i < 0 {
		return Kind{}, fmt.Errorf("the package does not import a package schema")
	}
	schema := ctx.BuildInstance(inst.Imports[i])
	definition := func(suffix string) cue.Value {
		return schema.LookupPath(cue.MakePath(cue.Def(k.Kind.Kind + suffix)))
	}
	k.Definition, k.Status, k.more = definition(""), definition("Status"), definition("CRD")
	if err := k.Definition.Err(); err != nil {
		return Kind{}, err
	}
	return k, k.more.Err()
}
