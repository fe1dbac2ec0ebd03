package main

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/cuvee-vm/cuvee/render/crd"
)

// description is what a text's template has at hand.
type description struct {
	// Objects are spec and the objects in it, each with its fields; Status is the same for status.
	Objects, Status []object
	// Rules concern several fields.
	Rules []rule
	// WithoutEffect are the fields that are accepted and change nothing.
	WithoutEffect []row
	// Reasons are those of conditions that ask for something.
	Reasons []reason
}

// reason is what templates say about a reason.
type reason struct{ Name, Means, Do string }

// object is one table.
type object struct {
	Path, Meaning string
	Fields        []row
}

// row is one field.
type row struct {
	Path, Name, Value, Meaning, Default string
	Required                            bool
	// Reaches are the objects and options that the field changes.
	Reaches []string
}

type rule struct{ Path, Message string }

// describer walks a contract and its schema side by side.
type describer struct {
	description
	// tables is where the objects found go to.
	tables *[]object
	// defaults are the settings' values by the field that they are for.
	defaults map[string]string
}

func describe(k crd.Kind) (*description, error) {
	schema, err := k.Schema()
	if err != nil {
		return nil, err
	}
	d := describer{}
	if d.defaults, err = defaults(k.Templates.LookupPath(cue.ParsePath("settings"))); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	d.rules("", *schema, known)
	for path := range d.defaults {
		if !known[path] {
			return nil, fmt.Errorf("a setting is the default of %s, which is no field", path)
		}
	}
	spec, status := schema.Properties["spec"], schema.Properties["status"]
	if d.Reasons, err = reasons(k.Templates); err != nil {
		return nil, err
	}
	d.tables = &d.Objects
	if err := d.object("spec", k.Definition.LookupPath(cue.MakePath(cue.Str("spec").Required())), spec); err != nil {
		return nil, err
	}
	if k.Status.Exists() {
		d.tables = &d.Status
		if err := d.object("status", k.Status, status); err != nil {
			return nil, err
		}
	}
	return &d.description, nil
}

// object adds the table of an object's fields, and then those of the objects in it.
func (d *describer) object(path string, v cue.Value, s apiextensions.JSONSchemaProps) error {
	at := len(*d.tables)
	*d.tables = append(*d.tables, object{Path: path, Meaning: s.Description})
	fields, err := v.Fields(cue.Optional(true))
	if err != nil {
		return err
	}
	var rows []row
	for fields.Next() {
		name, field := fields.Selector().Unquoted(), fields.Value()
		r := d.row(path+"."+name, name, field, s.Properties[name])
		r.Required = slices.Contains(s.Required, name)
		rows = append(rows, r)
		if a := field.Attribute("reaches"); r.Reaches == nil && a.Err() == nil {
			d.WithoutEffect = append(d.WithoutEffect, r)
		}
		if err := d.inner(r.Path, field, s.Properties[name]); err != nil {
			return err
		}
	}
	(*d.tables)[at].Fields = rows
	return nil
}

// inner goes on with the objects in a field, or in the elements of a list. What reaches its place as a whole is
// Kubernetes' own, and "kubectl explain" has the details.
func (d *describer) inner(path string, v cue.Value, s apiextensions.JSONSchemaProps) error {
	if a := v.Attribute("reaches"); a.NumArgs() > 0 {
		return nil
	}
	if s.Type == "array" {
		elem := v.LookupPath(cue.MakePath(cue.AnyIndex))
		path, v, s = path+"[]", elem, *s.Items.Schema
	}
	if len(s.Properties) == 0 {
		return nil
	}
	return d.object(path, v, s)
}

func (d *describer) row(path, name string, v cue.Value, s apiextensions.JSONSchemaProps) row {
	r := row{Path: path, Name: name, Value: value(v, s), Meaning: s.Description, Default: d.defaults[path]}
	for _, holder := range []cue.Value{v, v.LookupPath(cue.MakePath(cue.AnyString))} {
		a := holder.Attribute("reaches")
		for i := range a.NumArgs() {
			if where, err := a.String(i); err == nil && where != "" {
				r.Reaches = append(r.Reaches, where)
			}
		}
	}
	return r
}

// rules collects the rules, and which fields there are.
func (d *describer) rules(path string, s apiextensions.JSONSchemaProps, known map[string]bool) {
	known[path] = true
	for _, r := range s.XValidations {
		d.Rules = append(d.Rules, rule{Path: path, Message: r.Message})
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d.rules(strings.TrimPrefix(path+"."+name, "."), s.Properties[name], known)
	}
	if s.Items != nil {
		d.rules(path+"[]", *s.Items.Schema, known)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		d.rules(path+".*", *s.AdditionalProperties.Schema, known)
	}
}

// reasons are those that the templates explain, in their order.
func reasons(templates cue.Value) ([]reason, error) {
	fields, err := templates.LookupPath(cue.ParsePath("reasons")).Fields()
	if err != nil {
		return nil, fmt.Errorf("read the reasons: %w", err)
	}
	var out []reason
	for fields.Next() {
		r := reason{Name: fields.Selector().Unquoted()}
		if err := fields.Value().Decode(&r); err != nil {
			return nil, fmt.Errorf("read the reason %s: %w", r.Name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// defaults finds the settings that say with an attribute which fields they are the default of.
func defaults(settings cue.Value) (map[string]string, error) {
	found := map[string]string{}
	var err error
	settings.Walk(func(v cue.Value) bool {
		a := v.Attribute("default")
		for i := range a.NumArgs() {
			path, e := a.String(i)
			if e != nil {
				err = e
				return false
			}
			value, _ := v.Default()
			text, e := value.MarshalJSON()
			if e != nil {
				err = fmt.Errorf("the default of %s: %w", path, e)
				return false
			}
			found[path] = string(text)
		}
		return true
	}, nil)
	return found, err
}
