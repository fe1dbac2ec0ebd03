package render

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// check lists what is wrong with a value. The copy that it returns has only what is right, so that what follows can
// look for further faults in it.
func (c *contract) check(path string, v any, report func(path, message string)) (any, bool) {
	switch {
	case c.anything:
		return v, true
	case c.fields != nil:
		return c.checkStruct(path, v, report)
	case c.elem != nil:
		return c.checkList(path, v, report)
	case c.test(v):
		return v, true
	}
	report(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
	return nil, false
}

func (c *contract) checkStruct(path string, v any, report func(path, message string)) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		report(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
		return nil, false
	}
	clean := make(map[string]any, len(m))
	good := true
	for _, key := range sortedKeys(m) {
		field := c.rest
		if f := c.fields[key]; f != nil {
			field = f.contract
		}
		at := fieldPath(path, key)
		if field == nil {
			report(at, "unknown field"+c.nearest(key))
			good = false
			continue
		}
		x, ok := field.check(at, m[key], report)
		if x != nil || ok {
			clean[key] = x
		}
		good = good && ok
	}
	for _, name := range sortedKeys(c.fields) {
		if f := c.fields[name]; f.required {
			if _, ok := m[name]; !ok {
				report(fieldPath(path, name), "is missing, want "+f.want)
				good = false
			}
		}
	}
	return clean, good
}

func (c *contract) checkList(path string, v any, report func(path, message string)) (any, bool) {
	l, ok := v.([]any)
	if !ok {
		report(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
		return nil, false
	}
	good := true
	if c.maximum > 0 && int64(len(l)) > c.maximum {
		report(path, fmt.Sprintf("has %d entries, at most %d are allowed", len(l), c.maximum))
		good = false
	}
	clean := make([]any, 0, len(l))
	for i, x := range l {
		y, ok := c.elem.check(path+"["+strconv.Itoa(i)+"]", x, report)
		if !ok && y == nil {
			// The place stays, as paths count it.
			y = map[string]any{}
		}
		clean = append(clean, y)
		good = good && ok
	}
	return clean, good
}

// nearest suggests the known field that a name may be meant for, or lists them if they are few.
func (c *contract) nearest(key string) string {
	best, distance := "", len(key)/2+1
	for _, name := range sortedKeys(c.fields) {
		if d := editDistance(strings.ToLower(key), strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf(", did you mean %s?", best)
	}
	return ", known are " + join(sortedKeys(c.fields), "and")
}

// editDistance is the Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, replacements
// and exchanges of neighbours that turn one text into the other.
func editDistance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// show writes a value for a message, shortened.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if r := []rune(v); len(r) > 40 {
			return strconv.Quote(string(r[:40])) + "…"
		}
		return strconv.Quote(v)
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	default:
		return fmt.Sprint(v)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
