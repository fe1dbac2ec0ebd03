package render

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// reporter collects what is wrong with a document.
type reporter struct {
	doc    Document
	faults Faults
	// paths are those with a fault.
	paths map[string]bool
	// left are the paths of the fields that are left out, and incomplete those of their objects.
	left       []string
	incomplete map[string]bool
}

func newReporter(d Document) *reporter {
	return &reporter{doc: d, paths: map[string]bool{}, incomplete: map[string]bool{}}
}

// unknown reports a field that there is not.
func (r *reporter) unknown(path, message string) {
	r.faults = append(r.faults, r.doc.at(Fault{Path: path, Message: message}))
	r.paths[path] = true
}

// invalid reports a field that is left out of what is looked at further.
func (r *reporter) invalid(path, message string) {
	r.unknown(path, message)
	r.left = append(r.left, path)
	r.incomplete[parentPath(path)] = true
}

// further reports what was found in the rest of the document, by the rules or by the templates, unless that may be so only because
// of what was left out: a rule that names such a field is not to be trusted, and templates may ask for any field beside it.
func (r *reporter) further(faults []Fault, rules bool) {
	for _, f := range faults {
		if r.paths[f.Path] || r.lacks(f) || !rules && r.incomplete[parentPath(f.Path)] {
			continue
		}
		r.unknown(f.Path, f.Message)
	}
}

// lacks says that a fault names a field that was left out below its path: of the object, or of the entries of the list.
func (r *reporter) lacks(f Fault) bool {
	for _, path := range r.left {
		below, ok := strings.CutPrefix(path, f.Path)
		if ok && slices.Contains(fieldNames(f.Message), strings.TrimPrefix(index.ReplaceAllString(below, ""), ".")) {
			return true
		}
	}
	return false
}

// index is the place of a list's entry in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

// fieldNames are the words of a message, and the paths in it.
func fieldNames(message string) []string {
	return strings.FieldsFunc(message, func(c rune) bool { return c != '.' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// check lists what is wrong with a value. The copy that it returns has only what is right, so that what follows can
// look for further faults in it.
func (c *contract) check(path string, v any, r *reporter) (any, bool) {
	switch {
	case c.anything:
		return v, true
	case c.fields != nil:
		return c.checkStruct(path, v, r)
	case c.elem != nil:
		return c.checkList(path, v, r)
	case c.test(v):
		return v, true
	}
	r.invalid(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
	return nil, false
}

func (c *contract) checkStruct(path string, v any, r *reporter) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		r.invalid(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
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
			r.unknown(at, "unknown field"+nearest(key, sortedKeys(c.fields)))
			good = false
			continue
		}
		x, ok := field.check(at, m[key], r)
		if x != nil || ok {
			clean[key] = x
		}
		good = good && ok
	}
	for _, name := range sortedKeys(c.fields) {
		if f := c.fields[name]; f.required {
			if _, ok := m[name]; !ok {
				r.invalid(fieldPath(path, name), "is missing, want "+f.want)
				good = false
			}
		}
	}
	return clean, good
}

func (c *contract) checkList(path string, v any, r *reporter) (any, bool) {
	l, ok := v.([]any)
	if !ok {
		r.invalid(path, fmt.Sprintf("%s is not valid, want %s", show(v), c.want))
		return nil, false
	}
	good := true
	if c.maximum > 0 && int64(len(l)) > c.maximum {
		r.invalid(path, fmt.Sprintf("has %d entries, at most %d are allowed", len(l), c.maximum))
		good = false
	}
	clean := make([]any, 0, len(l))
	for i, x := range l {
		y, ok := c.elem.check(path+"["+strconv.Itoa(i)+"]", x, r)
		if !ok && y == nil {
			// The place stays, as paths count it.
			y = map[string]any{}
		}
		clean = append(clean, y)
		good = good && ok
	}
	return clean, good
}

// nearest suggests the known name that one may be meant for, or lists them.
func nearest(key string, known []string) string {
	best, distance := "", len(key)/2+1
	for _, name := range known {
		if d := EditDistance(strings.ToLower(key), strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf(", did you mean %s?", best)
	}
	return ", known are " + join(known, "and")
}

// EditDistance is the Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, replacements
// and exchanges of neighbours that turn one text into the other.
func EditDistance(a, b string) int {
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
