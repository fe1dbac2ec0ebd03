package render

import (
	"slices"
	"sort"
	"strings"
)

// RenderObserving renders an input with the given objects standing for those of the cluster: it finds among them what the
// templates look up, and renders again with that.
func (s *Set) RenderObserving(in Input, cluster []Document) (*Result, error) {
	r, err := s.Render(in)
	if len(cluster) == 0 {
		return r, err
	}
	lookups, lookupErr := s.lookups(in)
	if lookupErr != nil {
		return r, err
	}
	metadata, _ := in.Document.Object["metadata"].(map[string]any)
	in.Observed = map[string][]map[string]any{}
	for key, l := range lookups {
		for _, d := range cluster {
			if l.When && l.matches(d.Object, metadata["namespace"]) {
				in.Observed[key] = append(in.Observed[key], l.Project(d.Object))
			}
		}
		sort.Slice(in.Observed[key], func(i, j int) bool { return name(in.Observed[key][i]) < name(in.Observed[key][j]) })
	}
	return s.Render(in)
}

// lookups are what the templates want to see for an input.
func (s *Set) lookups(in Input) (map[string]Lookup, error) {
	c, err := s.awake()
	if err != nil {
		return nil, err
	}
	clean, _ := s.check(in.Document)
	var out map[string]Lookup
	return out, decode(c.fill(clean, in), "observe", &out)
}

// matches says whether an object is one that is looked for. An object that names no namespace is in that of the input.
func (l Lookup) matches(object map[string]any, namespace any) bool {
	if object["apiVersion"] != l.APIVersion || object["kind"] != l.Kind {
		return false
	}
	metadata, _ := object["metadata"].(map[string]any)
	if ns := metadata["namespace"]; ns != nil && namespace != nil && ns != namespace {
		return false
	}
	switch {
	case l.Name != "":
		return name(object) == l.Name
	case l.Names != nil:
		return slices.Contains(l.Names, name(object))
	}
	labels, _ := metadata["labels"].(map[string]any)
	for k, v := range l.Selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Project returns the part of an object that the templates asked for. Whoever observes for them hands in no more, so
// that what is rendered does not depend on who does.
func (l Lookup) Project(object map[string]any) map[string]any {
	if l.MetadataOnly {
		out := map[string]any{"apiVersion": l.APIVersion, "kind": l.Kind}
		if m, ok := object["metadata"]; ok {
			out["metadata"] = m
		}
		return out
	}
	if l.Fields == nil {
		return object
	}
	out := map[string]any{}
	for _, f := range l.Fields {
		copyField(out, object, strings.Split(f, "."))
	}
	return out
}

func copyField(to, from map[string]any, path []string) {
	value, ok := from[path[0]]
	if !ok {
		return
	}
	if len(path) == 1 {
		to[path[0]] = value
		return
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return
	}
	next, ok := to[path[0]].(map[string]any)
	if !ok {
		next = map[string]any{}
		to[path[0]] = next
	}
	copyField(next, inner, path[1:])
}

func name(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	n, _ := metadata["name"].(string)
	return n
}
