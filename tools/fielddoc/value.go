package main

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// value says in a few words what a field may hold.
func value(v cue.Value, s apiextensions.JSONSchemaProps) string {
	a := v.Attribute("want")
	if want, err := a.String(0); err == nil {
		return want
	}
	text := plainValue(v, s)
	if s.Nullable {
		return text + " or null"
	}
	return text
}

func plainValue(v cue.Value, s apiextensions.JSONSchemaProps) string {
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, e := range s.Enum {
			words = append(words, code(strings.Trim(string(e.Raw), `"`)))
		}
		return strings.Join(words, ", ")
	case s.XIntOrString:
		return "quantity"
	case s.Type == "array":
		text := "list of " + plural(value(v.LookupPath(cue.MakePath(cue.AnyIndex)), *s.Items.Schema))
		if s.MaxItems != nil {
			text += fmt.Sprintf(", at most %d", *s.MaxItems)
		}
		return text
	case s.AdditionalProperties != nil:
		return "map of " + plural(value(v.LookupPath(cue.MakePath(cue.AnyString)), *s.AdditionalProperties.Schema))
	case s.Type == "object" && len(s.Properties) == 0:
		return "any object"
	case s.Type == "integer":
		return integer(s)
	case s.Type == "string" && s.Pattern != "":
		return "text like " + code(s.Pattern)
	case s.Type == "string":
		return "text"
	}
	return s.Type
}

func integer(s apiextensions.JSONSchemaProps) string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("integer, %.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("integer, at least %.0f", *s.Minimum)
	}
	return "integer"
}

// plural is that of the few words that lists and maps are of.
func plural(text string) string {
	for one, many := range map[string]string{"object": "objects", "text": "texts", "text or null": "texts or null", "quantity": "quantities"} {
		if text == one {
			return many
		}
	}
	return text
}
