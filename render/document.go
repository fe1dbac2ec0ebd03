package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A Document is one object as it was read.
type Document struct {
	// Object is the content, as encoding/json has it, but with whole numbers as int64.
	Object map[string]any
	// File is the name of what it was read from.
	File string

	line int
	root *yamlnode.Node
}

// Decode reads the objects of a file in YAML, of one or more documents, or in JSON, the way kubectl reads them: so
// yes and on are booleans, and a key that is given twice is an error. A List is taken apart. The name is used in
// messages. The error is [Faults] if the text is not what it should be.
func Decode(name string, data []byte) ([]Document, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		// A parser would say so of each of its documents.
		return nil, Faults{{File: name, Message: "is not text in UTF-8"}}
	}
	var docs []Document
	var faults Faults
	for _, c := range split(data) {
		d, err := decodeOne(name, c)
		if err != nil {
			faults = append(faults, yamlFault(name, c.line, err))
			continue
		}
		if d != nil {
			docs = append(docs, d...)
		}
	}
	if len(faults) > 0 {
		return docs, faults
	}
	return docs, nil
}

type chunk struct {
	text []byte
	line int
}

// split takes a stream apart at the lines that begin with "---", as kubectl does.
func split(data []byte) []chunk {
	var out []chunk
	current := chunk{}
	n := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("---")) {
			out = append(out, current)
			current = chunk{line: n}
			// What follows the separator on its line belongs to the document; blanks keep the columns.
			line = append([]byte("   "), line[3:]...)
		}
		current.text = append(current.text, line...)
		n++
	}
	return append(out, current)
}

func decodeOne(name string, c chunk) ([]Document, error) {
	if len(bytes.TrimSpace(c.text)) == 0 {
		return nil, nil
	}
	asJSON, err := yaml.YAMLToJSONStrict(c.text)
	if err != nil {
		return nil, err
	}
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &v); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, nil
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	var root yamlnode.Node
	if err := yamlnode.NewDecoder(bytes.NewReader(c.text)).Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	d := Document{Object: object, File: name, line: c.line}
	if len(root.Content) > 0 {
		d.root = root.Content[0]
	}
	items, ok := object["items"].([]any)
	if kind, _ := object["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return []Document{d}, nil
	}
	var out []Document
	for i, item := range items {
		o, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is not an object", i)
		}
		out = append(out, Document{Object: o, File: name, line: c.line, root: d.find([]step{{key: "items"}, {index: i, isIndex: true}})})
	}
	return out, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlFault takes the line out of a YAML parser's message.
func yamlFault(file string, offset int, err error) Fault {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text, syntax := strings.CutPrefix(text, "yaml: ")
	text, values := strings.CutPrefix(text, "unmarshal errors:\n  ")
	f := Fault{File: file, Message: strings.TrimSpace(text)}
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		line, _ := strconv.Atoi(text[m[2]:m[3]])
		f.Line, f.Column = offset+line, 1
		f.Message = strings.TrimSpace(text[:m[0]] + text[m[1]:])
	}
	f.Message = strings.ReplaceAll(f.Message, "\n", " ")
	if syntax && !values {
		f.Message = "is not YAML: " + f.Message
	}
	return f
}

// at fills in where a fault's path is in the document; of a field that is not there, where the object is that
// should have it.
func (d Document) at(f Fault) Fault {
	f.File = d.File
	if d.root == nil {
		return f
	}
	steps := parsePath(f.Path)
	for n := len(steps); n >= 0; n-- {
		if node := d.find(steps[:n]); node != nil {
			f.Line, f.Column = d.line+node.Line, node.Column
			return f
		}
	}
	return f
}

type step struct {
	key     string
	index   int
	isIndex bool
}

var pathStep = regexp.MustCompile(`\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.\[]+)`)

// parsePath reads a path such as spec.vm.disks[1].cdrom or metadata.labels["a.b/c"].
func parsePath(path string) []step {
	var out []step
	for _, m := range pathStep.FindAllStringSubmatch(path, -1) {
		switch {
		case m[2] != "":
			i, _ := strconv.Atoi(m[2])
			out = append(out, step{index: i, isIndex: true})
		case m[3] != "":
			out = append(out, step{key: m[3]})
		default:
			key, err := strconv.Unquote(`"` + m[1] + `"`)
			if err != nil {
				key = m[1]
			}
			out = append(out, step{key: key})
		}
	}
	return out
}

var plainKey = regexp.MustCompile(`^[A-Za-z_$][-A-Za-z0-9_$]*$`)

// fieldPath adds a field to a path.
func fieldPath(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// parentPath is the path of the object or list that a field is in.
func parentPath(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// find returns the node at a path: of a field the node of its key.
func (d Document) find(steps []step) *yamlnode.Node {
	node := d.root
	at := node
	for _, s := range steps {
		for node != nil && node.Kind == yamlnode.AliasNode {
			node = node.Alias
		}
		if node == nil {
			return nil
		}
		switch {
		case s.isIndex && node.Kind == yamlnode.SequenceNode && s.index < len(node.Content):
			node = node.Content[s.index]
			at = node
		case !s.isIndex && node.Kind == yamlnode.MappingNode:
			key, value := entry(node, s.key)
			if key == nil {
				return nil
			}
			node, at = value, key
		default:
			return nil
		}
	}
	if len(steps) > 0 && steps[len(steps)-1].isIndex || at == nil {
		return at
	}
	// Messages about a value point at the value where it is on the key's line.
	if node != nil && node.Kind == yamlnode.ScalarNode && node.Line == at.Line {
		return node
	}
	return at
}

func entry(mapping *yamlnode.Node, key string) (k, v *yamlnode.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}
