package change

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// entryOf is what a manager's entry in managedFields says of a value. nil is nothing: the manager has not applied it.
type entryOf struct {
	fields map[string]any
	// whole says that all of the value was applied, whatever it has: of what is inside, the entry says nothing.
	whole bool
}

// all is the entry of a value of which all was applied.
var all = &entryOf{whole: true}

// child is the entry of a part; of an atomic value, which has no parts in the entry, all parts were applied.
func child(part any, ok bool) *entryOf {
	fields, isMap := part.(map[string]any)
	switch {
	case !ok || !isMap:
		return nil
	case len(fields) == 0:
		return all
	}
	return &entryOf{fields: fields}
}

func (e *entryOf) field(name string) *entryOf {
	switch {
	case e == nil:
		return nil
	case e.whole:
		return all
	}
	part, ok := e.fields["f:"+name]
	return child(part, ok)
}

// mapped says that the entry has fields of its own.
func (e *entryOf) mapped() bool {
	for k := range e.fields {
		if strings.HasPrefix(k, "f:") {
			return true
		}
	}
	return e.whole
}

// keys are the fields that tell the items of a list apart; nil if the entry does not say.
func (e *entryOf) keys() []string {
	if e == nil {
		return nil
	}
	for k := range e.fields {
		if keys := itemKeys(k); keys != nil {
			return slices.Sorted(maps.Keys(keys))
		}
	}
	return nil
}

// item is the entry of an item of a list.
func (e *entryOf) item(item any) *entryOf {
	switch {
	case e == nil:
		return nil
	case e.whole:
		return all
	}
	object, _ := item.(map[string]any)
	for k, part := range e.fields {
		keys := itemKeys(k)
		match := keys != nil && object != nil
		for name, want := range keys {
			match = match && fmt.Sprint(object[name]) == fmt.Sprint(want)
		}
		if match {
			return child(part, true)
		}
	}
	return nil
}

// itemKeys reads the name of an item in an entry: k:{"containerPort":80,"protocol":"TCP"}.
func itemKeys(name string) map[string]any {
	text, ok := strings.CutPrefix(name, "k:")
	var keys map[string]any
	if !ok || json.Unmarshal([]byte(text), &keys) != nil {
		return nil
	}
	return keys
}
