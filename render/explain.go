package render

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/errors"
)

// TemplateError is what is wrong with templates: a site's or those built in.
type TemplateError struct {
	// What was attempted.
	What string
	// Faults has an entry for each thing that is wrong.
	Faults Faults
}

// Error has a line for each fault.
func (e *TemplateError) Error() string {
	if len(e.Faults) == 1 {
		return e.What + ": " + e.Faults[0].String()
	}
	return e.What + ":\n" + e.Faults.Error()
}

// explainCUE turns CUE's errors into one fault for each place. CUE tells of every alternative of a disjunction that
// does not fit; here they are one sentence.
func explainCUE(what string, err error) error {
	e := &TemplateError{What: what}
	conflicts := map[Fault][][2]string{}
	var consequences []Fault
	for _, cueErr := range errors.Errors(err) {
		format, args := cueErr.Msg()
		f := Fault{Path: strings.Join(cueErr.Path(), ".")}
		place(&f, cueErr)
		message := fmt.Sprintf(format, args...)
		switch pair, ok := conflict(message); {
		case strings.HasSuffix(message, "errors in empty disjunction:"), message == "invalid interpolation", strings.HasPrefix(message, "error in call to "):
			// What follows from another fault, if there is one.
			f.Message = message
			consequences = append(consequences, f)
			continue
		case ok:
			conflicts[f] = append(conflicts[f], pair)
		default:
			f.Message = message + hint(f.Path, message)
		}
		if !slices.Contains(e.Faults, f) {
			e.Faults = append(e.Faults, f)
		}
	}
	for i, f := range e.Faults {
		if f.Message == "" {
			e.Faults[i].Message = explainConflicts(conflicts[f])
		}
	}
	if len(e.Faults) == 0 {
		e.Faults = consequences
	}
	if len(e.Faults) == 0 {
		e.Faults = Faults{{Message: err.Error()}}
	}
	return e
}

// explainConflicts words the conflicts of one place: a value that fits none of several alternatives, or two values.
func explainConflicts(pairs [][2]string) string {
	for _, got := range pairs[0] {
		var wants []string
		for _, p := range pairs {
			switch got {
			case p[0]:
				wants = append(wants, p[1])
			case p[1]:
				wants = append(wants, p[0])
			}
		}
		if len(pairs) > 1 && len(wants) == len(pairs) {
			slices.Sort(wants)
			return fmt.Sprintf("%s is not valid, want %s", got, join(slices.Compact(wants), "or"))
		}
	}
	return fmt.Sprintf("conflicting values %s and %s", pairs[0][0], pairs[0][1])
}

// hint helps with what is the most likely slip in an overlay.
func hint(path, message string) string {
	key, ok := strings.CutPrefix(path, "objects.")
	if !ok || !strings.Contains(message, "required but not present") {
		return ""
	}
	key, _, _ = strings.Cut(key, ".")
	return fmt.Sprintf("; an object that is not always there is changed by \"objects: %s?: …\"", key)
}

// conflict reads "conflicting values A and B".
func conflict(message string) (pair [2]string, ok bool) {
	rest, ok := strings.CutPrefix(message, "conflicting values ")
	if !ok {
		return pair, false
	}
	rest, _, _ = strings.Cut(rest, " (mismatched types")
	pair[0], pair[1], ok = strings.Cut(rest, " and ")
	return pair, ok
}

// place finds the position that is the reader's concern: one in a site's files, if there is one.
func place(f *Fault, err errors.Error) {
	for _, pos := range errors.Positions(err) {
		if !pos.IsValid() || pos.Filename() == "" {
			continue
		}
		if f.File == "" || !builtIn(pos.Filename()) && builtIn(f.File) {
			f.File, f.Line, f.Column = pos.Filename(), pos.Line(), pos.Column()
		}
	}
}

// builtIn says whether a file is one of the module's.
func builtIn(file string) bool {
	return strings.HasPrefix(file, "templates/") || strings.HasPrefix(file, "schema/")
}
