// Package change says in which fields an object that is rendered differs from the one that is there. It looks only at what a field
// manager renders, or has applied before: what others write, and the API server's defaults, are no difference.
package change

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cuvee-vm/cuvee/controller/managedfields"
)

// Field is a field that would get another value.
type Field struct {
	// Path is where it is: spec.template.spec.containers[web].image. An item of a list with keys is named by them, a field of a text that
	// is JSON by the path of the text, and that within: data["config.json"].live.currentCpus.
	Path string `json:"path"`
	// Old is its value, New the one that it would get; nil is none.
	Old any `json:"old,omitempty"`
	New any `json:"new,omitempty"`
}

// masked stands for a value of a Secret.
const masked = "(secret)"

// Fields compares an object with what is rendered for it. The entry is the FieldsV1 of the manager; without one nothing counts as applied
// before. Values of Secrets are not told.
func Fields(entry []byte, live, rendered map[string]any) ([]Field, error) {
	owned := map[string]any{}
	if len(entry) > 0 {
		if err := json.Unmarshal(entry, &owned); err != nil {
			return nil, fmt.Errorf("read fields of a manager: %w", err)
		}
	}
	c := &comparison{secret: rendered["kind"] == "Secret" && rendered["apiVersion"] == "v1"}
	c.maps("", &entryOf{fields: owned}, live, rendered)
	return c.fields, nil
}

// comparison collects differences.
type comparison struct {
	secret bool
	fields []Field
}

func (c *comparison) differ(path string, old, is any) {
	if c.secret && (within(path, "data") || within(path, "stringData")) {
		if old != nil {
			old = masked
		}
		if is != nil {
			is = masked
		}
	}
	c.fields = append(c.fields, Field{Path: path, Old: old, New: is})
}

func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// marks are what the engine writes for itself, and identity what the API server does.
var (
	marks = map[string]bool{
		`metadata.annotations["cuvee-vm.github.io/hash"]`: true, `metadata.annotations["cuvee-vm.github.io/key"]`: true,
		`metadata.annotations["cuvee-vm.github.io/keep"]`: true, `metadata.labels["cuvee-vm.github.io/owner"]`: true,
		`metadata.annotations["cuvee-vm.github.io/patched-for"]`: true,
	}
	identity = map[string]bool{
		"metadata.uid": true, "metadata.resourceVersion": true, "metadata.creationTimestamp": true, "metadata.generation": true,
		"metadata.managedFields": true, "metadata.namespace": true,
	}
)

func (c *comparison) values(path string, e *entryOf, live, rendered any) {
	switch is := rendered.(type) {
	case map[string]any:
		if was, ok := live.(map[string]any); ok {
			c.maps(path, e, was, is)
			return
		}
	case []any:
		if was, ok := live.([]any); ok {
			c.lists(path, e, was, is)
			return
		}
	case string:
		if was, ok := live.(string); ok && !c.secret && c.documents(path, was, is) {
			return
		}
	}
	if !equal(path, live, rendered) {
		c.differ(path, live, rendered)
	}
}

// maps compares field by field. One that is not rendered any more goes if it was applied before.
func (c *comparison) maps(path string, e *entryOf, live, rendered map[string]any) {
	for _, name := range keysOf(live, rendered) {
		at := fieldPath(path, name)
		if marks[at] || identity[at] {
			continue
		}
		was, is := live[name], rendered[name]
		switch {
		case managedfields.Empty(is) && managedfields.Empty(was), is == nil && isDefault(at, was):
		case managedfields.Empty(is):
			c.gone(at, e.field(name), was)
		case was == nil:
			c.differ(at, nil, is)
		default:
			c.values(at, e.field(name), was, is)
		}
	}
}

// gone lists what was applied of a value that is not rendered any more.
func (c *comparison) gone(path string, e *entryOf, was any) {
	live, isMap := was.(map[string]any)
	switch {
	case e == nil:
	case isMap && e.mapped():
		c.maps(path, e, live, nil)
	default:
		c.differ(path, was, nil)
	}
}

// lists compares item by item, if items have something to tell them by; else the lists as they are.
func (c *comparison) lists(path string, e *entryOf, live, rendered []any) {
	if equal(path, live, rendered) {
		return
	}
	was, is := named(live, e.keys()), named(rendered, e.keys())
	switch {
	case was != nil && is != nil:
	case len(live) == len(rendered):
		for i := range live {
			c.values(path+"["+strconv.Itoa(i)+"]", all, live[i], rendered[i])
		}
		return
	default:
		c.items(path, live, rendered)
		return
	}
	for _, name := range keysOf(was, is) {
		at := path + "[" + name + "]"
		item := e.item(was[name])
		switch {
		case is[name] != nil && was[name] != nil:
			c.values(at, item, was[name], is[name])
		case is[name] != nil:
			c.differ(at, nil, is[name])
		case item != nil:
			c.differ(at, was[name], nil)
		}
	}
}

// items compares lists whose items nothing tells apart: some go, and some come.
func (c *comparison) items(path string, live, rendered []any) {
	without := func(list, other []any) []any {
		return slices.DeleteFunc(slices.Clone(list), func(v any) bool {
			return slices.ContainsFunc(other, func(w any) bool { return equal(path, v, w) || equal(path, w, v) })
		})
	}
	gone, added := without(live, rendered), without(rendered, live)
	if len(gone)+len(added) == 0 {
		// One that is there twice.
		c.differ(path, live, rendered)
	}
	for _, v := range gone {
		c.differ(path+"[]", v, nil)
	}
	for _, v := range added {
		c.differ(path+"[]", nil, v)
	}
}

// named are the items of a list by the values of the fields that tell them apart; nil if there are none. Without an entry that says
// which, it is a name; of an option of QEMU, in config.json, the option and the id in its value.
func named(list []any, keys []string) map[string]any {
	out := map[string]any{}
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil
		}
		var words []string
		if keys != nil {
			words = valuesOf(object, keys...)
		} else {
			words = slices.Concat(valuesOf(object, "option", "name", "type", "id", "uid"),
				valuesOf(object["json"], "id", "node-name"), valuesOf(object["keys"], "id", "property"))
		}
		name := strings.Join(words, " ")
		if _, twice := out[name]; twice || name == "" {
			return nil
		}
		out[name] = item
	}
	return out
}

// valuesOf are the values of fields, if they are there and are no objects.
func valuesOf(v any, fields ...string) []string {
	object, _ := v.(map[string]any)
	var out []string
	for _, f := range fields {
		switch x := object[f].(type) {
		case nil, map[string]any, []any:
		default:
			out = append(out, fmt.Sprint(x))
		}
	}
	return out
}

// documents compares texts that are JSON objects by what they say. It says whether they are such.
func (c *comparison) documents(path, was, is string) bool {
	if was == is {
		return false
	}
	old, now := decode(was), decode(is)
	if old == nil || now == nil {
		return false
	}
	before := len(c.fields)
	c.maps(path, all, old, now)
	if len(c.fields) == before {
		// They say the same, and are not written alike.
		c.differ(path, was, is)
	}
	return true
}

func decode(text string) map[string]any {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil
	}
	var out map[string]any
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

func keysOf(a, b map[string]any) []string {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// fieldPath adds a field to a path, in brackets if its name is not a plain word.
func fieldPath(path, name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	switch {
	case !plain:
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}
