package templateset

import (
	"strings"

	"github.com/cuvee-vm/cuvee/render"
)

// AcceptFile is the file of a site's directory that names the custom resources that its templates may break: one a line, as
// "VirtualMachine namespace/name"; what follows a # is a comment, and a line with a * is all of them. It is part of what it is
// for, so a change of templates and what it costs are seen, and undone, together.
const AcceptFile = "accept-broken"

// accepted are the entries of an AcceptFile.
type accepted map[string]bool

func parseAccepted(text string) (accepted, error) {
	out := accepted{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case len(words) == 1 && words[0] == "*", len(words) == 2:
			out[strings.Join(words, " ")] = true
		default:
			return nil, render.Faults{{File: AcceptFile, Line: n, Column: 1, Message: `want a line like "VirtualMachine default/web", or *`}}
		}
	}
	return out, nil
}

func (a accepted) has(object string) bool { return a["*"] || a[object] }
