package crd

import (
	"encoding/json"
	"fmt"

	"cuelang.org/go/cue"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// scalarSchema makes the schema of a text, a number or a boolean: kinds, literals, bounds and patterns, and what "&" and
// "|" make of them.
func scalarSchema(v cue.Value) (*apiextensions.JSONSchemaProps, error) {
	s := &apiextensions.JSONSchemaProps{}
	if err := constrain(s, v.Eval()); err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return s, nil
}

func constrain(s *apiextensions.JSONSchemaProps, v cue.Value) error {
	op, args := v.Expr()
	switch op {
	case cue.AndOp:
		for _, a := range args {
			if err := constrain(s, a); err != nil {
				return err
			}
		}
		return nil
	case cue.OrOp:
		return alternatives(s, args)
	case cue.RegexMatchOp:
		pattern, err := args[0].String()
		if err != nil {
			return err
		}
		s.Type, s.Pattern = "string", pattern
		// The API server estimates from this how long a rule over the text can take.
		s.MaxLength, err = longest(pattern)
		return err
	case cue.GreaterThanEqualOp, cue.LessThanEqualOp:
		bound, err := args[0].Float64()
		if err != nil {
			return err
		}
		if op == cue.GreaterThanEqualOp {
			s.Minimum = ptr.To(bound)
			return nil
		}
		s.Maximum = ptr.To(bound)
		return nil
	case cue.NoOp:
		return basic(s, v)
	}
	return fmt.Errorf("OpenAPI cannot say %v", v)
}

// alternatives are a choice of literal texts, a value or null, or an integer or text; more is not needed.
func alternatives(s *apiextensions.JSONSchemaProps, args []cue.Value) error {
	for _, a := range args {
		switch {
		case a.IncompleteKind() == cue.NullKind:
			s.Nullable = true
		case a.IncompleteKind() == cue.StringKind && a.IsConcrete():
			literal, err := a.MarshalJSON()
			if err != nil {
				return err
			}
			s.Type, s.Enum = "string", append(s.Enum, apiextensions.JSON{Raw: json.RawMessage(literal)})
		default:
			if err := constrain(s, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func basic(s *apiextensions.JSONSchemaProps, v cue.Value) error {
	types := map[cue.Kind]string{cue.StringKind: "string", cue.BoolKind: "boolean", cue.IntKind: "integer", cue.NumberKind: "number"}
	name, ok := types[v.IncompleteKind()]
	if !ok {
		return fmt.Errorf("OpenAPI cannot say %v", v)
	}
	s.Type = name
	if !v.IsConcrete() {
		return nil
	}
	literal, err := v.MarshalJSON()
	if err != nil {
		return err
	}
	s.Enum = []apiextensions.JSON{{Raw: literal}}
	return nil
}
