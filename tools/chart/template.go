package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// change makes a value of the chart of a field. It has one of text, with and lines.
type change struct {
	// at is the path of the field; a number is an item of a list.
	at string
	// add says that the field is not there yet. The others have to be.
	add bool
	// text is what stands in the place of the field's value.
	text string
	// with is a value: the field is there if that is not empty, and then is that.
	with string
	// scalar says that the value of with is a string.
	scalar bool
	// lines stand in the place of the field, its name included. INDENT is how many blanks are before the name.
	lines string
}

// token stands for the value of a field that is changed.
func token(i int) string { return "XX" + strconv.Itoa(i) + "XX" }

var tokenLine = regexp.MustCompile(`(?m)^( *)(- )?(?:([\w.-]+): )?XX(\d+)XX\n`)

// template writes an object as a template, with changes.
func template(o *unstructured.Unstructured, changes []change) (string, error) {
	for i, c := range changes {
		if err := set(o.Object, strings.Split(c.at, "."), token(i), c.add); err != nil {
			return "", fmt.Errorf("%s: %w", c.at, err)
		}
	}
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("write: %w", err)
	}
	// What is a template already, in the words of Prometheus, is text for Helm.
	escaped := strings.ReplaceAll(string(text), "{{", `{{ "{{" }}`)
	seen := 0
	out := tokenLine.ReplaceAllStringFunc(escaped, func(line string) string {
		m := tokenLine.FindStringSubmatch(line)
		i, _ := strconv.Atoi(m[4])
		seen++
		return changes[i].write(m[1], m[2], m[3])
	})
	if seen != len(changes) {
		return "", fmt.Errorf("%d of %d changes have a line of their own", seen, len(changes))
	}
	return out, nil
}

// write returns the lines of a changed field: its indent, the dash before it if it is the first of a list's item, and its name.
func (c change) write(indent, dash, name string) string {
	if c.text != "" {
		return indent + dash + name + ": " + c.text + "\n"
	}
	lines := c.lines
	switch {
	case c.with != "" && c.scalar:
		lines = "{{- with " + c.with + " }}\n" + name + ": {{ . | quote }}\n{{- end }}"
	case c.with != "":
		lines = "{{- with " + c.with + " }}\n" + name + ":\n  {{- toYaml . | nindent DEEPER }}\n{{- end }}"
	}
	lines = strings.ReplaceAll(lines, "INDENT", strconv.Itoa(len(indent)))
	lines = strings.ReplaceAll(lines, "DEEPER", strconv.Itoa(len(indent)+2))
	return indent + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n"
}

// set puts a token in the place of a field. A number at the end of a path is that item of a list, with all after it.
func set(in any, path []string, token string, add bool) error {
	name := path[0]
	switch in := in.(type) {
	case map[string]any:
		value, ok := in[name]
		if len(path) > 1 && !ok && add {
			value, ok = map[string]any{}, true
			in[name] = value
		}
		if list, isList := value.([]any); isList && len(path) == 2 {
			n, err := strconv.Atoi(path[1])
			if err != nil || n >= len(list) {
				return fmt.Errorf("there is no such item: the list has %d", len(list))
			}
			in[name] = append(list[:n:n], token)
			return nil
		}
		if len(path) > 1 && ok {
			return set(value, path[1:], token, add)
		}
		if ok == add {
			return fmt.Errorf("that the field is there is %v", ok)
		}
		in[name] = token
		return nil
	case []any:
		n, err := strconv.Atoi(name)
		if err != nil || n >= len(in) || len(path) == 1 {
			return fmt.Errorf("there is no such item: the list has %d", len(in))
		}
		return set(in[n], path[1:], token, add)
	}
	return fmt.Errorf("%s is no map or list", name)
}
