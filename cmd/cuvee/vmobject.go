package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// at is a field of an object as it comes from the API server, by its path; nil if it is not there.
func at(object any, path ...string) any {
	for _, key := range path {
		m, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = m[key]
	}
	return object
}

// text is a field as a text, "" if it is not there.
func text(object any, path ...string) string {
	switch v := at(object, path...).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// items are those of a list, none if it is not there.
func items(object any, path ...string) []any {
	list, _ := at(object, path...).([]any)
	return list
}

// number is a field that is a whole number, 0 if it is not there.
func number(object any, path ...string) int64 {
	n, _ := at(object, path...).(int64)
	return n
}

// condition is an entry of an object's status.conditions.
type condition struct {
	kind, status, reason, message string
	// generation is the metadata.generation that it is about, 0 if it does not say.
	generation int64
}

// conditionOf is the object's condition of this type; without it all of it is empty.
func conditionOf(object any, kind string) condition {
	for _, c := range items(object, "status", "conditions") {
		if text(c, "type") == kind {
			return condition{
				kind: kind, status: text(c, "status"), reason: text(c, "reason"), message: text(c, "message"),
				generation: number(c, "observedGeneration"),
			}
		}
	}
	return condition{}
}

// oneLine makes a text of others one that a terminal can show: no control character in it has an effect.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return ' '
		}
		return r
	}, s)
}

func indentJSON(object any) ([]byte, error) {
	data, err := json.MarshalIndent(object, "", "    ")
	return append(data, '\n'), err
}
