package conformance

import (
	"slices"

	"cuelang.org/go/cue"
)

// enums are the texts that a contract names as values of fields, but for those of nested objects that users write for
// others than the VM.
func enums(v cue.Value) []string {
	var found []string
	var walk func(cue.Value)
	walk = func(v cue.Value) {
		switch v.IncompleteKind() {
		case cue.StructKind:
			it, err := v.Fields(cue.Optional(true))
			if err != nil {
				return
			}
			for it.Next() {
				walk(it.Value())
			}
		case cue.ListKind:
			walk(v.LookupPath(cue.MakePath(cue.AnyIndex)))
		case cue.StringKind:
			op, args := cue.Dereference(v).Eval().Expr()
			if op != cue.OrOp {
				return
			}
			for _, a := range args {
				if s, err := a.String(); err == nil {
					found = append(found, s)
				}
			}
		}
	}
	walk(v)
	slices.Sort(found)
	return slices.Compact(found)
}
