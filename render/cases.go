package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// CaseDir is the directory of a template package, or of a site, that has its cases.
const CaseDir = "cases"

// A Case is an example that templates have to render: a change that breaks it is noticed before it meets a cluster.
type Case struct {
	// File is where it was read from.
	File string
	// Inputs are custom resources.
	Inputs []Document
	// Cluster are all other objects of the file: they stand for what is in the cluster.
	Cluster []Document
}

// ReadCases reads the cases of a directory, one a *.yaml file, sorted by name. Kinds says which kinds are custom resources, by
// apiVersion and kind. No directory is no cases.
func ReadCases(fsys fs.FS, dir string, kinds ...Kind) ([]Case, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}
	var cases []Case
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read cases: %w", err)
		}
		docs, err := Decode(name, data)
		if err != nil {
			return nil, err
		}
		c := Case{File: name}
		for _, d := range docs {
			if isOneOf(d, kinds) {
				c.Inputs = append(c.Inputs, d)
			} else {
				c.Cluster = append(c.Cluster, d)
			}
		}
		if len(c.Inputs) == 0 {
			return nil, Faults{{File: name, Message: "a case without a custom resource" + wanted(kinds)}}
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func isOneOf(d Document, kinds []Kind) bool {
	for _, k := range kinds {
		if d.Object["apiVersion"] == k.APIVersion() && d.Object["kind"] == k.Kind {
			return true
		}
	}
	return false
}

func wanted(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Kind+" of "+k.APIVersion())
	}
	return ", want a " + join(names, "or")
}

// Try renders those custom resources of a case that are of the set's kind. The error of the first that does not
// render is returned: [Faults] if it is refused, else what is wrong with the templates, with the place.
func (s *Set) Try(c Case) error {
	for _, d := range c.Inputs {
		if !isOneOf(d, []Kind{s.Kind}) {
			continue
		}
		in := Input{Document: d, Engine: &Engine{
			ResourceVersion: "1",
			Now:             "2026-01-01T00:00:00Z",
			Random:          "0123456789abcdef0123456789abcdef",
		}}
		_, err := s.RenderObserving(in, c.Cluster)
		var wrong *TemplateError
		if errors.As(err, &wrong) {
			return &TemplateError{What: "case " + c.File + ": " + wrong.What, Faults: wrong.Faults}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
