package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Values are what the runner fills in for the references in a config's arguments.
type Values struct {
	// Resolve holds the chosen alternative of each choice, by the choice's name.
	Resolve map[string]map[string]string
	// FD holds the numbers of file descriptors by name.
	FD map[string]string
}

// Placeholders returns values that stand for what is known only where the VM runs: "<machine.type>" for a choice's
// value, "<fd:qmp>" for a file descriptor. They make a command line for people to read.
func Placeholders(c *Config) Values {
	v := Values{Resolve: make(map[string]map[string]string), FD: make(map[string]string)}
	for name, choice := range c.Resolve {
		v.Resolve[name] = make(map[string]string)
		for _, a := range choice.Alternatives {
			for _, key := range append(slices.Collect(maps.Keys(a)), "code", "vars") {
				if choice.gives(a, key) {
					v.Resolve[name][key] = "<" + name + "." + key + ">"
				}
			}
		}
	}
	for _, name := range c.Boot.fdNames() {
		v.FD[name] = "<fd:" + name + ">"
	}
	return v
}

// CommandLine returns the arguments of QEMU, without the program itself. Each option becomes one element for its
// name and at most one for its argument, whatever the values are: in key=value arguments commas are doubled, and what
// QEMU would read as a further key in spite of that is refused. A reference to what values do not have is an error
// that names it.
func CommandLine(b Boot, values Values) ([]string, error) {
	var argv []string
	for i, a := range b.Args {
		words, err := a.words(values)
		if err != nil {
			return nil, fmt.Errorf("boot.args[%d] (-%s): %w", i, a.Option, err)
		}
		argv = append(argv, words...)
	}
	return argv, nil
}

// words returns the option and its argument. An option all of whose argument is left out is left out itself,
// because QEMU would take the next option for its argument.
func (a Arg) words(values Values) ([]string, error) {
	if a.Option == "" || strings.HasPrefix(a.Option, "-") {
		return nil, fmt.Errorf("option %q is not a name without dash", a.Option)
	}
	option := "-" + a.Option
	switch {
	case a.JSON != nil && (a.Value != nil || a.Keys != nil):
		return nil, errors.New("both json and value or keys are given")
	case a.JSON != nil:
		text, err := jsonArgument(a.JSON, values)
		return []string{option, text}, err
	case a.Value == nil && a.Keys == nil:
		return []string{option}, nil
	}
	text, there, err := a.keyValues(values)
	if err != nil || !there {
		return nil, err
	}
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("argument has a NUL byte")
	}
	return []string{option, text}, nil
}

// jsonArgument returns JSON text with the references replaced. Keys come out sorted.
func jsonArgument(object map[string]any, values Values) (string, error) {
	filled, err := values.fillObject(object)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(filled); err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// fill replaces the references within a JSON value and reports whether the value is there at all.
func (v Values) fill(value any) (any, bool, error) {
	switch x := value.(type) {
	case map[string]any:
		if ref, ok := asReference(x); ok {
			text, there, err := v.lookup(ref)
			return jsonScalar(ref, text), there, err
		}
		filled, err := v.fillObject(x)
		return filled, true, err
	case []any:
		filled := make([]any, 0, len(x))
		for i, item := range x {
			f, there, err := v.fill(item)
			if err != nil {
				return nil, false, fmt.Errorf("[%d]: %w", i, err)
			}
			if there {
				filled = append(filled, f)
			}
		}
		return filled, true, nil
	default:
		return value, true, nil
	}
}

func (v Values) fillObject(object map[string]any) (map[string]any, error) {
	filled := make(map[string]any, len(object))
	for key, item := range object {
		f, there, err := v.fill(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if there {
			filled[key] = f
		}
	}
	return filled, nil
}

// jsonScalar returns a resolved value as QEMU's strict JSON parser wants it: the values of choices are text, and
// "on" and "off" are the ones that stand for a boolean. Numbers of file descriptors are text in QAPI.
func jsonScalar(ref reference, text string) any {
	if ref.fd {
		return text
	}
	switch text {
	case "on":
		return true
	case "off":
		return false
	}
	return text
}
