package render

import (
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
)

const settingsField = "settings"

var settingsPath = cue.ParsePath(settingsField)

// freeze replaces the settings, of which a render would weigh each default mark anew, by their values. Settings that
// depend on something that is filled in later, as those for a VM without a cluster do, are left alone.
func (s *Set) freeze() error {
	// An instance of its own, as the files are changed.
	inst, err := s.source.instance()
	if err != nil {
		return err
	}
	if !selfContained(inst.Files, settingsField, map[string]bool{}) || conditional(inst.Files, settingsField) {
		return nil
	}
	values, ok := s.compiled.root.LookupPath(settingsPath).Syntax(cue.Final(), cue.Concrete(true)).(ast.Expr)
	if !ok {
		return nil
	}
	for _, f := range inst.Files {
		var kept []ast.Decl
		for _, d := range f.Decls {
			if name := declName(d); name != settingsField && name != "#Settings" {
				kept = append(kept, d)
			}
		}
		f.Decls = kept
	}
	first := inst.Files[0]
	first.Decls = append(first.Decls, &ast.Field{Label: ast.NewIdent(settingsField), Value: values})
	frozen := compileInstance(inst)
	if err := frozen.root.Validate(); err != nil {
		return explainCUE("freeze settings", err)
	}
	frozen.loadSchema(inst, s.Kind)
	// Of what was compiled before nothing is kept.
	s.compiled = frozen
	return nil
}

// selfContained says whether a field of a package refers to no other regular field of it: only to definitions and
// hidden fields that are self-contained themselves.
func selfContained(files []*ast.File, name string, seen map[string]bool) bool {
	if seen[name] {
		return true
	}
	seen[name] = true
	top := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			top[declName(d)] = true
		}
	}
	good := true
	for _, f := range files {
		for _, d := range f.Decls {
			field, ok := d.(*ast.Field)
			if !ok || declName(d) != name {
				continue
			}
			for _, ref := range references(field.Value) {
				switch {
				case !top[ref] || ref == settingsField:
				case strings.HasPrefix(ref, "#") || strings.HasPrefix(ref, "_"):
					good = good && selfContained(files, ref, seen)
				default:
					good = false
				}
			}
		}
	}
	return good
}

// conditional says whether a field has a part that is there only under a condition, or for each of something.
func conditional(files []*ast.File, name string) bool {
	for _, f := range files {
		for _, d := range f.Decls {
			if c, ok := d.(*ast.Comprehension); ok && declares(c, name) {
				return true
			}
		}
	}
	return false
}

func declares(c *ast.Comprehension, name string) bool {
	s, ok := c.Value.(*ast.StructLit)
	if !ok {
		return false
	}
	for _, d := range s.Elts {
		if inner, ok := d.(*ast.Comprehension); declName(d) == name || ok && declares(inner, name) {
			return true
		}
	}
	return false
}

// references are the names that an expression uses, labels aside.
func references(n ast.Node) []string {
	var out []string
	ast.Walk(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			out = append(out, references(n.Value)...)
			return false
		case *ast.SelectorExpr:
			out = append(out, references(n.X)...)
			return false
		case *ast.Ident:
			out = append(out, n.Name)
		}
		return true
	}, nil)
	return out
}

// declName is the name of a declared field; empty for anything else.
func declName(d ast.Decl) string {
	field, ok := d.(*ast.Field)
	if !ok {
		return ""
	}
	name, _, err := ast.LabelName(field.Label)
	if err != nil {
		return ""
	}
	return name
}
