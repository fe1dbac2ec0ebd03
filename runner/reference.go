package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrReference says that an argument refers to something that the config does not have.
var ErrReference = errors.New("unknown reference")

// reference is a parsed {"resolve": "name.value"} or {"fd": "name"}.
type reference struct {
	fd    bool
	name  string
	value string
}

func (r reference) String() string {
	if r.fd {
		return "fd " + r.name
	}
	return "resolve " + r.name + "." + r.value
}

// asReference reads an object with the only key "resolve" or "fd" and a string. Any other object is none.
func asReference(object map[string]any) (reference, bool) {
	if len(object) != 1 {
		return reference{}, false
	}
	if s, ok := object["fd"].(string); ok {
		return reference{fd: true, name: s}, true
	}
	if s, ok := object["resolve"].(string); ok {
		name, value, _ := strings.Cut(s, ".")
		return reference{name: name, value: value}, true
	}
	return reference{}, false
}

// lookup returns what a reference stands for. The value of a choice may be absent in the chosen alternative.
func (v Values) lookup(r reference) (text string, there bool, err error) {
	if r.fd {
		text, ok := v.FD[r.name]
		if !ok {
			return "", false, fmt.Errorf("%w: %s", ErrReference, r)
		}
		return text, true, nil
	}
	choice, ok := v.Resolve[r.name]
	if !ok {
		return "", false, fmt.Errorf("%w: %s", ErrReference, r)
	}
	text, there = choice[r.value]
	return text, there, nil
}

// references returns all references in the arguments, in order.
func (b Boot) references() []reference {
	var refs []reference
	var walk func(any)
	walk = func(value any) {
		switch x := value.(type) {
		case map[string]any:
			if r, ok := asReference(x); ok {
				refs = append(refs, r)
				return
			}
			for _, key := range slices.Sorted(maps.Keys(x)) {
				walk(x[key])
			}
		case []any:
			for _, item := range x {
				walk(item)
			}
		}
	}
	for _, a := range b.Args {
		walk(a.Value)
		// The top level is an option's own argument, even if its only key is "fd".
		for _, top := range []map[string]any{a.JSON, a.Keys} {
			for _, key := range slices.Sorted(maps.Keys(top)) {
				walk(top[key])
			}
		}
	}
	return refs
}

// fdNames returns the names of the file descriptors that arguments refer to, in order, each once.
func (b Boot) fdNames() []string {
	var names []string
	for _, r := range b.references() {
		if r.fd && !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}

// Check finds references in the config to choices, or to values of choices, that no alternative has.
func (c *Config) Check() error {
	var faults []error
	for _, r := range c.Boot.references() {
		if r.fd {
			continue
		}
		choice := c.Resolve[r.name]
		has := func(a map[string]string) bool { return choice.gives(a, r.value) }
		if !slices.ContainsFunc(choice.Alternatives, has) {
			faults = append(faults, fmt.Errorf("%w: %s", ErrReference, r))
		}
	}
	if f := c.Boot.Firmware; f != nil {
		if _, ok := c.Resolve[f.Choice]; !ok {
			faults = append(faults, fmt.Errorf("%w: firmware choice %q", ErrReference, f.Choice))
		}
	}
	return errors.Join(faults...)
}
