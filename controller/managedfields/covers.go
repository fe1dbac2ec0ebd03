package managedfields

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// identity are the fields that server-side apply gives to nobody.
var identity = map[string]bool{
	".apiVersion": true, ".kind": true, ".metadata.name": true, ".metadata.namespace": true, ".metadata.uid": true,
	".metadata.generateName": true, ".metadata.resourceVersion": true, ".metadata.creationTimestamp": true,
}

// Missing returns the path of a field of an applied object that its manager does not own any more, or "" if it owns them
// all: then nobody has changed a field of it since, as whoever changes a field takes it from its owner. The entry is the
// manager's FieldsV1.
//
// The entry says by its form what a list is: with keys ("k:…") or values ("v:…") it is a map or a set, and each item is
// looked for; without it is atomic, and owned as a whole. An empty object or list that is owned is covered.
func Missing(entry []byte, object map[string]any) (string, error) {
	var fields map[string]any
	if err := json.Unmarshal(entry, &fields); err != nil {
		return "", fmt.Errorf("read fields of a manager: %w", err)
	}
	return missing(fields, object, ""), nil
}

func missing(owned map[string]any, value any, path string) string {
	switch v := value.(type) {
	case map[string]any:
		return missingInMap(owned, v, path)
	case []any:
		return missingInList(owned, v, path)
	}
	return ""
}

func missingInMap(owned map[string]any, object map[string]any, path string) string {
	// A map whose entry has no children is atomic; metadata is none.
	if path != "" && path != ".metadata" && !hasPrefix(owned, "f:") {
		return ""
	}
	for name, value := range object {
		at := path + "." + name
		// The server drops null, and what has no fields leaves nothing that could be owned.
		if value == nil || identity[at] {
			continue
		}
		child, ok := owned["f:"+name].(map[string]any)
		if !ok && at != ".metadata" {
			if Empty(value) {
				continue
			}
			return at
		}
		if m := missing(child, value, at); m != "" {
			return m
		}
	}
	return ""
}

func missingInList(owned map[string]any, list []any, path string) string {
	switch {
	case hasPrefix(owned, "k:"):
		return missingInKeyed(owned, list, path)
	case hasPrefix(owned, "v:"):
		return missingInSet(owned, list, path)
	}
	return ""
}

// missingInKeyed compares a list whose items have keys. Which fields are keys is read from the entry; a key that the object
// leaves out has its default there.
func missingInKeyed(owned map[string]any, list []any, path string) string {
	type keyed struct {
		keys   map[string]any
		fields map[string]any
	}
	var all []keyed
	for k, v := range owned {
		text, ok := strings.CutPrefix(k, "k:")
		if !ok {
			continue
		}
		e := keyed{}
		if json.Unmarshal([]byte(text), &e.keys) != nil {
			continue
		}
		e.fields, _ = v.(map[string]any)
		all = append(all, e)
	}
	for i, item := range list {
		object, _ := item.(map[string]any)
		at := fmt.Sprintf("%s[%d]", path, i)
		found := ""
		matched := false
		for _, e := range all {
			if !hasKeys(object, e.keys) {
				continue
			}
			if found = missingInMap(e.fields, object, at); found == "" {
				matched = true
				break
			}
		}
		switch {
		case matched:
		case found != "":
			return found
		default:
			return at
		}
	}
	return ""
}

// hasKeys says whether an item may be the one with the keys.
func hasKeys(object map[string]any, keys map[string]any) bool {
	for k, want := range keys {
		if got, ok := object[k]; ok && fmt.Sprint(got) != fmt.Sprint(want) {
			return false
		}
	}
	return true
}

func missingInSet(owned map[string]any, list []any, path string) string {
	values := sets.New[string]()
	for k := range owned {
		if text, ok := strings.CutPrefix(k, "v:"); ok {
			values.Insert(text)
		}
	}
	for i, item := range list {
		text, err := json.Marshal(item)
		if err != nil || !values.Has(string(text)) {
			return fmt.Sprintf("%s[%d]", path, i)
		}
	}
	return ""
}

func hasPrefix(owned map[string]any, prefix string) bool {
	for k := range owned {
		if strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// Empty says whether a value has nothing in it, so that nobody owns a field of it, and the API server may not keep it.
func Empty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, x := range v {
			if !Empty(x) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return value == nil
}
