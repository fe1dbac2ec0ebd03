package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type props = apiextensions.JSONSchemaProps

// TestEachConstraint breaks the constraints of the schema one by one in copies of the good samples, and holds that the
// API server and CUE both refuse each of them, at the same field. A constraint that no good sample comes by is a fault
// of the samples.
func TestEachConstraint(t *testing.T) {
	for _, k := range loadKinds(t) {
		server, contract := newServer(t, k), newContract(t, k)
		untried := map[string]bool{}
		walk(server.props, "", func(path string, p *props) {
			for _, c := range constraints(p) {
				untried[path+" "+c.name] = true
			}
		})
		// What is not an object at all does not get this far.
		delete(untried, " type")
		for _, good := range goodSamples(t, k) {
			visit(server.props, "", good.object, nil, func(path string, p *props, at []any, value any) {
				for _, c := range constraints(p) {
					name := path + " " + c.name
					if !untried[name] {
						continue
					}
					delete(untried, name)
					where, broken := c.broken(good.object, at, value)
					t.Run(name, func(t *testing.T) {
						found := server.faults(t, broken)
						if !slices.ContainsFunc(found, func(f fault) bool { return f.path == where && f.kind == c.kind }) {
							t.Errorf("API server: want %s at %s, found %v", c.kind, where, found)
						}
						found = contract.faults(t, broken)
						if !slices.ContainsFunc(found, func(f fault) bool { return f.path == where || strings.HasPrefix(f.path, where+".") }) {
							t.Errorf("CUE: want a fault at %s, found %v", where, found)
						}
					})
				}
			})
		}
		for name := range untried {
			t.Errorf("%s: no good sample has a value for %s", k.Name(), name)
		}
	}
}

// constraint is one that a schema has, and how to break it.
type constraint struct {
	name string
	kind field.ErrorType
	// instead makes a value that breaks the constraint.
	instead func(value any) any
	// Or: member is the field to add to the object, or to take out of it.
	member string
}

// constraints lists those of one place in the schema.
func constraints(p *props) []constraint {
	var cs []constraint
	add := func(name string, kind field.ErrorType, instead func(any) any) {
		cs = append(cs, constraint{name: name, kind: kind, instead: instead})
	}
	if p.Type != "" || p.XIntOrString {
		add("type", field.ErrorTypeTypeInvalid, func(any) any {
			if p.Type == "boolean" || p.XIntOrString {
				return []any{}
			}
			return true
		})
	}
	if len(p.Enum) > 0 {
		add("enum", field.ErrorTypeNotSupported, func(any) any { return "NoSuchValue" })
	}
	if p.Pattern != "" {
		// No pattern lets a line break pass.
		add("pattern", field.ErrorTypeInvalid, func(any) any { return "\n" })
	}
	if p.MaxLength != nil {
		add("maxLength", field.ErrorTypeTooLong, func(any) any { return strings.Repeat("0", int(*p.MaxLength)+1) })
	}
	if p.Minimum != nil {
		add("minimum", field.ErrorTypeInvalid, func(any) any { return int64(*p.Minimum) - 1 })
	}
	if p.Maximum != nil {
		add("maximum", field.ErrorTypeInvalid, func(any) any { return int64(*p.Maximum) + 1 })
	}
	if p.MaxItems != nil {
		add("maxItems", field.ErrorTypeTooMany, func(value any) any {
			return slices.Repeat(value.([]any)[:1], int(*p.MaxItems)+1)
		})
	}
	for _, name := range p.Required {
		cs = append(cs, constraint{name: "required " + name, kind: field.ErrorTypeRequired, member: name})
	}
	if p.Type == "object" && p.AdditionalProperties == nil && (p.XPreserveUnknownFields == nil || !*p.XPreserveUnknownFields) {
		cs = append(cs, constraint{name: "closed", kind: unknown, member: "noSuchField"})
	}
	return cs
}

// broken is a copy of the object in which the constraint is broken at a place, and the field that is to blame.
func (c constraint) broken(object map[string]any, at []any, value any) (string, map[string]any) {
	if c.member == "" {
		return fieldPath(at), with(object, at, c.instead(value)).(map[string]any)
	}
	changed := runtime.DeepCopyJSON(value.(map[string]any))
	if _, there := changed[c.member]; there {
		delete(changed, c.member)
	} else {
		changed[c.member] = int64(1)
	}
	return fieldPath(append(slices.Clone(at), c.member)), with(object, at, changed).(map[string]any)
}

// with is a copy of a value with another one at a place in it.
func with(value any, at []any, other any) any {
	if len(at) == 0 {
		return other
	}
	value = runtime.DeepCopyJSONValue(value)
	switch step := at[0].(type) {
	case string:
		object := value.(map[string]any)
		object[step] = with(object[step], at[1:], other)
	case int:
		list := value.([]any)
		list[step] = with(list[step], at[1:], other)
	}
	return value
}

// fieldPath writes a place as Kubernetes does.
func fieldPath(at []any) string {
	var path strings.Builder
	for _, step := range at {
		switch step := step.(type) {
		case string:
			path.WriteString("." + step)
		case int:
			fmt.Fprintf(&path, "[%d]", step)
		}
	}
	return strings.TrimPrefix(path.String(), ".")
}

// walk visits every place of a schema except metadata, which is the API server's.
func walk(p *props, path string, found func(path string, p *props)) {
	found(path, p)
	for name, child := range p.Properties {
		if path != "" || name != "metadata" {
			walk(&child, join(path, name), found)
		}
	}
	if p.Items != nil {
		walk(p.Items.Schema, path+"[]", found)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		walk(p.AdditionalProperties.Schema, join(path, "*"), found)
	}
}

// visit walks a schema and a value side by side, always in the same order: path is the place in the schema, at that in
// the value. What is empty is passed by.
func visit(p *props, path string, value any, at []any, found func(path string, p *props, at []any, value any)) {
	if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
		return
	}
	found(path, p, at, value)
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			v := value[name]
			child, known := p.Properties[name]
			switch {
			case path == "" && name == "metadata":
			case known:
				visit(&child, join(path, name), v, append(slices.Clone(at), name), found)
			case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
				visit(p.AdditionalProperties.Schema, join(path, "*"), v, append(slices.Clone(at), name), found)
			}
		}
	case []any:
		for i, v := range value {
			visit(p.Items.Schema, path+"[]", v, append(slices.Clone(at), i), found)
		}
	}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
