package render

import (
	"fmt"
	"sort"
	"strings"
)

// A Fault is one thing that is wrong with an input: where, and what; it says what is allowed, too.
type Fault struct {
	// File is the input's name as the user wrote it; empty if it is none.
	File string
	// Line and Column count from 1; 0 means not known.
	Line, Column int
	// Path is the field, for example "spec.vm.disks[1].cdrom.image".
	Path string
	// Message says what is wrong, and what is allowed.
	Message string
}

// String is the fault on one line: file:line:column: path: message.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
		if f.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
		}
		b.WriteString(" ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is the error of an input that is refused.
type Faults []Fault

// Error has a line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the faults in the order of the input, each once.
func (f Faults) sorted() Faults {
	sort.SliceStable(f, func(i, j int) bool {
		a, b := f[i], f[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		if a.Column != b.Column {
			return a.Column < b.Column
		}
		return a.Path < b.Path
	})
	var out Faults
	for _, fault := range f {
		if len(out) == 0 || out[len(out)-1] != fault {
			out = append(out, fault)
		}
	}
	return out
}
