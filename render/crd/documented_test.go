package crd_test

import (
	"strings"
	"testing"

	"cuelang.org/go/cue"
)

// TestDocumented holds that every field says what it means, and every field of spec what it reaches: a new field
// without either would be a hole in "kubectl explain" and in docs/.
func TestDocumented(t *testing.T) {
	for _, k := range loadKinds(t) {
		walk(newServer(t, k).props, "", func(path string, p *props) {
			switch {
			case path == "apiVersion" || path == "kind" || strings.HasSuffix(path, "[]") || strings.HasSuffix(path, "*"):
				// The API server's own, and what has its meaning from the list or map that it is in.
			case p.Description == "":
				t.Errorf("%s: %s has no comment in the schema", k.Name(), path)
			}
		})
		for _, path := range withoutReach(k.Definition.LookupPath(cue.MakePath(cue.Str("spec").Required())), "spec") {
			t.Errorf("%s: %s has no @reaches in the schema", k.Name(), path)
		}
	}
}

// withoutReach lists the fields of which neither they themselves nor what they are in has the attribute.
func withoutReach(v cue.Value, at string) []string {
	if a := v.Attribute("reaches"); a.Err() == nil {
		return nil
	}
	var found []string
	inner := 0
	if fields, err := v.Fields(cue.Optional(true)); err == nil {
		for ; fields.Next(); inner++ {
			found = append(found, withoutReach(fields.Value(), at+"."+fields.Selector().Unquoted())...)
		}
	}
	for selector, suffix := range map[cue.Selector]string{cue.AnyIndex: "[]", cue.AnyString: ".*"} {
		if elem := v.LookupPath(cue.MakePath(selector)); elem.Exists() {
			inner++
			found = append(found, withoutReach(elem, at+suffix)...)
		}
	}
	if inner == 0 {
		return []string{at}
	}
	return found
}
