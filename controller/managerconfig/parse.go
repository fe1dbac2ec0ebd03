package managerconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"cuelang.org/go/cue/literal"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cuvee-vm/cuvee/render"
)

// Config is what a file says.
type Config struct {
	// Namespace is the manager's own; empty if the file does not say it.
	Namespace string
	// Settings is a CUE file of the package vm. What is wrong in a line of it is wrong in the same line of the file.
	Settings string
	// Ineffective are the keys that are accepted and have no effect, such as "/Manager/GuiHttpServer".
	Ineffective []string
}

// Parse reads a file; name is what messages call it. The error is [render.Faults], one for each thing that is wrong; what could be read
// beside that is in the Config, which is never nil.
func Parse(name string, text []byte) (*Config, error) {
	r := reader{name: name, config: &Config{}, lines: map[int][]string{}}
	if doc := r.document(text); doc != nil {
		r.mapping(root, doc, "")
	}
	r.config.Settings = r.cue()
	if len(r.faults) > 0 {
		return r.config, r.faults
	}
	return r.config, nil
}

// value is a value of the file, and the path of its key.
type value struct {
	*yaml.Node
	path string
}

type reader struct {
	name   string
	config *Config
	faults render.Faults
	// lines are the settings, by the line that they are in.
	lines map[int][]string
}

func (r *reader) fault(n *yaml.Node, path, format string, args ...any) {
	r.faults = append(r.faults, render.Fault{File: r.name, Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// document is the file's content; nil if there is none, or if it is no YAML.
func (r *reader) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			r.fault(&more, "", "there is a second document, want one")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		message := lineInText.ReplaceAllString(err.Error(), "")
		r.faults = append(r.faults, render.Fault{File: r.name, Line: badLine(text), Column: 1, Message: "this is no YAML: " + message})
		return nil
	}
	return doc.Content[0]
}

// lineInText is what the YAML parser's errors begin with. Their line is where what is not good begins, if there is one.
var lineInText = regexp.MustCompile(`^yaml: (line \d+: )?`)

// badLine is a line that makes YAML of a text that is none with it, and is some up to it.
func badLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	return max(1, sort.Search(len(lines), func(n int) bool {
		var doc yaml.Node
		return yaml.Unmarshal(bytes.Join(lines[:n], nil), &doc) != nil
	}))
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// entries are those of a mapping. Nothing at all is an empty one, as when all below a key is a comment.
func (r *reader) entries(n *yaml.Node, path string) []entry {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n, path, "want keys and their values")
		return nil
	}
	var out []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := entry{n.Content[i], n.Content[i+1]}
		if e.value.Kind == yaml.AliasNode {
			e.value = e.value.Alias
		}
		if seen[e.key.Value] {
			r.fault(e.key, join(path, e.key.Value), "this is there twice")
			continue
		}
		seen[e.key.Value] = true
		out = append(out, e)
	}
	return out
}

func (r *reader) mapping(k key, n *yaml.Node, path string) {
	for _, e := range r.entries(n, path) {
		r.entry(k, e, path)
	}
}

// entry takes over a key. "/Manager/Controller" is the same as "/Controller" below "/Manager".
func (r *reader) entry(k key, e entry, path string) {
	for _, name := range segments(e.key.Value) {
		next, ok := k.below[name]
		if !ok {
			r.fault(e.key, join(path, name), "unknown key%s", hint(name, k.below))
			return
		}
		k, path = next, join(path, name)
		if k.take == nil && k.below == nil {
			r.config.Ineffective = append(r.config.Ineffective, path)
			return
		}
	}
	switch {
	case k.below != nil:
		r.mapping(k, e.value, path)
	case e.value.Tag == "!!null":
	default:
		k.take(r, value{e.value, path})
	}
}

// segments are the components that a key selects, or the property that it is.
func segments(name string) []string {
	rest, ok := strings.CutPrefix(name, "/")
	if !ok {
		return []string{name}
	}
	parts := strings.Split(rest, "/")
	for i := range parts {
		parts[i] = "/" + parts[i]
	}
	return parts
}

// hint names the known key that one may be meant for, or all.
func hint(name string, known map[string]key) string {
	names := slices.Sorted(maps.Keys(known))
	best, distance := "", len(name)/2+1
	for _, n := range names {
		if d := render.EditDistance(strings.ToLower(name), strings.ToLower(n)); d < distance {
			best, distance = n, d
		}
	}
	if best != "" {
		return ", did you mean " + best + "?"
	}
	return ", known are " + strings.Join(names, ", ")
}

func takeNamespace(r *reader, v value) {
	if v.Kind != yaml.ScalarNode || len(validation.IsDNS1123Label(v.Value)) > 0 {
		r.fault(v.Node, v.path, "want the name of a namespace")
		return
	}
	r.config.Namespace = v.Value
}

// set adds a setting to the line that it is in.
func (r *reader) set(n *yaml.Node, path, expression string) {
	r.lines[n.Line] = append(r.lines[n.Line], "settings: "+strings.ReplaceAll(path, ".", ": ")+": "+expression)
}

func takeText(r *reader, path string, v value) {
	if v.Kind != yaml.ScalarNode || v.Tag != "!!str" {
		r.fault(v.Node, v.path, "want a text")
		return
	}
	r.set(v.Node, path, literal.String.Quote(v.Value))
}

func takeNumber(r *reader, path string, v value) {
	var f float64
	if err := v.Decode(&f); err != nil || v.Kind != yaml.ScalarNode || f < 0 || f > 1e6 || f != f {
		r.fault(v.Node, v.path, "want a number")
		return
	}
	r.set(v.Node, path, strconv.FormatFloat(f, 'f', -1, 64))
}

// takeLoadBalancer takes true or false, as YAML 1.1 has them, or a mapping.
func takeLoadBalancer(r *reader, v value) {
	const path = "loadBalancerService"
	var enabled bool
	if v.Kind == yaml.ScalarNode {
		if err := v.Decode(&enabled); err != nil {
			r.fault(v.Node, v.path, "want true, false, or labels and annotations")
			return
		}
		r.set(v.Node, path+".enabled", strconv.FormatBool(enabled))
		return
	}
	known := map[string]key{"labels": {}, "annotations": {}}
	for _, e := range r.entries(v.Node, v.path) {
		name := e.key.Value
		if _, ok := known[name]; !ok {
			r.fault(e.key, join(v.path, name), "unknown key%s", hint(name, known))
			continue
		}
		for _, pair := range r.entries(e.value, join(v.path, name)) {
			if pair.value.Kind != yaml.ScalarNode || pair.value.Tag != "!!str" {
				r.fault(pair.value, join(join(v.path, name), pair.key.Value), "want a text; a number or true has to be in quotes")
				continue
			}
			r.set(pair.value, path+"."+name, "{"+literal.String.Quote(pair.key.Value)+": "+literal.String.Quote(pair.value.Value)+"}")
		}
	}
	r.set(v.Node, path+".enabled", "true")
}

// cue is the settings as a file.
func (r *reader) cue() string {
	var b strings.Builder
	b.WriteString("package vm")
	line := 1
	for _, n := range slices.Sorted(maps.Keys(r.lines)) {
		for ; line < n; line++ {
			b.WriteString("\n")
		}
		for _, s := range r.lines[n] {
			b.WriteString(", " + s)
		}
	}
	b.WriteString("\n")
	return strings.ReplaceAll(b.String(), "\n, ", "\n")
}
