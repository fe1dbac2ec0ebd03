package templateset

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/render"
)

// Problem is why a directory's files are not what is rendered with.
type Problem struct {
	// Revision is that of the files that were refused; empty if they could not be read.
	Revision string `json:"revision,omitempty"`
	// File and Line are where it is, below the directory; empty and 0 if not known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Reason says what is wrong.
	Reason string `json:"reason"`
	// Object is the first custom resource that would no longer render: "VirtualMachine default/web". Empty if it did not come to that.
	Object string `json:"object,omitempty"`
	// Since is when it was found.
	Since time.Time `json:"since"`
}

// String is the problem on one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Object != "" {
		b.WriteString(p.Object + " would no longer render: ")
	}
	b.WriteString(render.Fault{File: p.File, Line: p.Line, Column: 1, Message: p.Reason}.String())
	return b.String()
}

// rename calls a file something else.
func (p *Problem) rename(from, to string) {
	if p.File == from {
		p.File = to
	}
	p.Reason = strings.ReplaceAll(p.Reason, from, to)
}

// BrokenError is what a [Check] returns if a custom resource that rendered before does not render with a candidate.
type BrokenError struct {
	// Object is the custom resource: "VirtualMachine default/web".
	Object string
	// Err is that of the render.
	Err error
}

// Error has the object and what is wrong.
func (e *BrokenError) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap is the error of the render.
func (e *BrokenError) Unwrap() error { return e.Err }

// problem words an error.
func problem(revision string, err error, since time.Time) *Problem {
	p := &Problem{Revision: revision, Reason: oneLine(err.Error()), Since: since}
	var broken *BrokenError
	if errors.As(err, &broken) {
		p.Object = broken.Object
		p.Reason = oneLine(broken.Err.Error())
	}
	faults := faultsOf(err)
	if len(faults) > 0 {
		first := faults[0]
		p.File, p.Line = first.File, first.Line
		first.File = ""
		p.Reason = oneLine(first.String())
		if n := len(faults) - 1; n > 0 {
			p.Reason += fmt.Sprintf(" (and %d more)", n)
		}
	}
	return p
}

// faultsOf are the faults that an error has: of a custom resource, or of templates.
func faultsOf(err error) render.Faults {
	var wrong *render.TemplateError
	if errors.As(err, &wrong) {
		return wrong.Faults
	}
	var refused render.Faults
	errors.As(err, &refused)
	return refused
}

// renameFaults gives the files of an error's faults other names. The error may not have been wrapped: a wrapping has its text already.
func renameFaults(err error, name func(string) string) error {
	faults := faultsOf(err)
	for i, f := range faults {
		if f.File != "" {
			faults[i].File = name(f.File)
		}
	}
	return err
}

// siteNames gives the site's packages the names that their files have in the site's directory.
func (c *compiler) siteNames(err error) error {
	return renameFaults(err, func(file string) string {
		rest, inside := strings.CutPrefix(file, "templates/")
		if dir, _, _ := strings.Cut(rest, "/"); inside && c.own[dir] {
			return rest
		}
		return file
	})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
