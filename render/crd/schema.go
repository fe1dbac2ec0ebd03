package crd

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// schemaOf makes the OpenAPI schema of a CUE value. Errors start with the path below the value, like ".spec.vm: …".
func schemaOf(v cue.Value) (*apiextensions.JSONSchemaProps, error) {
	var s *apiextensions.JSONSchemaProps
	var err error
	switch v.IncompleteKind() {
	case cue.StructKind:
		s, err = objectSchema(v)
	case cue.ListKind:
		s, err = listSchema(v)
	default:
		s, err = scalarSchema(cue.Dereference(v))
	}
	if err != nil {
		return nil, err
	}
	s.Description = docOf(v)
	return s, applyAttributes(s, v)
}

func objectSchema(v cue.Value) (*apiextensions.JSONSchemaProps, error) {
	s := &apiextensions.JSONSchemaProps{Type: "object"}
	fields, err := v.Fields(cue.Optional(true))
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	for fields.Next() {
		name := fields.Selector().Unquoted()
		field, err := schemaOf(fields.Value())
		if err != nil {
			return nil, fmt.Errorf(".%s%w", name, err)
		}
		if s.Properties == nil {
			s.Properties = map[string]apiextensions.JSONSchemaProps{}
		}
		s.Properties[name] = *field
		if fields.Selector().ConstraintType() == cue.RequiredConstraint {
			s.Required = append(s.Required, name)
		}
	}
	slices.Sort(s.Required)

	rest := v.LookupPath(cue.MakePath(cue.AnyString))
	if !rest.Exists() {
		return s, nil
	}
	if rest.IncompleteKind() == cue.TopKind {
		s.XPreserveUnknownFields = ptr.To(true)
		return s, nil
	}
	if s.Properties != nil {
		return nil, fmt.Errorf(": has fields and a pattern for others, which OpenAPI cannot say of one object")
	}
	values, err := schemaOf(rest)
	if err != nil {
		return nil, fmt.Errorf(".*%w", err)
	}
	s.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: values}
	return s, nil
}

func listSchema(v cue.Value) (*apiextensions.JSONSchemaProps, error) {
	v = cue.Dereference(v)
	elem, err := schemaOf(v.LookupPath(cue.MakePath(cue.AnyIndex)))
	if err != nil {
		return nil, fmt.Errorf("[]%w", err)
	}
	s := &apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: elem}}
	op, args := v.Expr()
	if op != cue.AndOp {
		return s, nil
	}
	for _, a := range args {
		op, call := a.Expr()
		if op != cue.CallOp {
			continue
		}
		if name := fmt.Sprint(call[0]); name != "list.MaxItems" {
			return nil, fmt.Errorf(": OpenAPI cannot say %s", name)
		}
		n, err := call[1].Int64()
		if err != nil {
			return nil, fmt.Errorf(": %w", err)
		}
		s.MaxItems = ptr.To(n)
	}
	return s, nil
}

// attributes are those of a value and those of the definition that it refers to, each once.
func attributes(v cue.Value) []cue.Attribute {
	seen := map[string]bool{}
	var all []cue.Attribute
	for _, a := range slices.Concat(v.Attributes(cue.ValueAttr), cue.Dereference(v).Attributes(cue.ValueAttr)) {
		if id := a.Name() + "(" + a.Contents() + ")"; !seen[id] {
			seen[id] = true
			all = append(all, a)
		}
	}
	return all
}

// applyAttributes adds what is said in attributes, because CUE has no constraint for it.
func applyAttributes(s *apiextensions.JSONSchemaProps, v cue.Value) error {
	for _, a := range attributes(v) {
		first, _ := a.String(0)
		switch a.Name() {
		case "cel":
			message, err := a.String(1)
			if err != nil {
				return fmt.Errorf(": rule %q: %w", first, err)
			}
			s.XValidations = append(s.XValidations, apiextensions.ValidationRule{Rule: first, Message: message})
		case "atomic":
			if s.Type == "array" {
				s.XListType = ptr.To("atomic")
				continue
			}
			s.XMapType = ptr.To("atomic")
		case "key":
			s.XListType, s.XListMapKeys = ptr.To("map"), []string{first}
		case "format":
			if first == "int-or-string" {
				s.Type, s.XIntOrString = "", true
				continue
			}
			s.Format = first
		}
	}
	return nil
}

// docOf is the comment at a field. Where the field has none, it is that of the definition that the field refers to;
// a definition of a text or number is so general that its comment belongs to every field with it.
func docOf(v cue.Value) string {
	own, definition := docText(v), docText(cue.Dereference(v))
	switch {
	case own == "" || own == definition:
		return definition
	case definition != "" && v.IncompleteKind()&(cue.StructKind|cue.ListKind) == 0:
		return own + " " + definition
	}
	return own
}

func docText(v cue.Value) string {
	var text strings.Builder
	for _, group := range v.Doc() {
		text.WriteString(group.Text())
	}
	// Lines end where the file's do; "kubectl explain" has lines of its own.
	return strings.Join(strings.Fields(text.String()), " ")
}
