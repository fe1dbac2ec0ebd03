package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// plainOptions take their whole argument as it is: QEMU neither looks for keys in it nor halves commas.
var plainOptions = map[string]bool{
	"D": true, "L": true, "append": true, "bios": true, "dtb": true, "initrd": true, "kernel": true, "pidfile": true, "uuid": true,
}

// keyValues returns "value,key=value,…" with the keys sorted, and whether anything of it is there.
func (a Arg) keyValues(values Values) (string, bool, error) {
	var parts []string
	if a.Value != nil {
		text, there, err := values.text(a.Value)
		if err != nil {
			return "", false, fmt.Errorf("value: %w", err)
		}
		if plainOptions[a.Option] {
			return text, there, a.noKeys()
		}
		// QEMU takes the part before the first comma for a key and its value if it has an equals sign.
		if strings.Contains(text, "=") {
			return "", false, fmt.Errorf("value %q: would be read as a key", text)
		}
		if there {
			parts = append(parts, text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Keys)) {
		if !validKey(key) {
			return "", false, fmt.Errorf("key %q: only letters, digits and -_.[]:/ make a key", key)
		}
		text, there, err := values.text(a.Keys[key])
		if err != nil {
			return "", false, fmt.Errorf("key %s: %w", key, err)
		}
		if there {
			parts = append(parts, key+"="+text)
		}
	}
	for i, part := range parts {
		// -cpu is the one option whose parser does not know doubled commas: it would read a further feature.
		if a.Option == "cpu" && strings.Contains(part, ",") {
			return "", false, fmt.Errorf("%q: -cpu takes no comma in a value", part)
		}
		parts[i] = escape(part)
	}
	return strings.Join(parts, ","), len(parts) > 0, nil
}

func (a Arg) noKeys() error {
	if len(a.Keys) > 0 {
		return errors.New("option takes no keys")
	}
	return nil
}

// escape doubles commas: that is how QEMU's key=value parsers read a comma as such.
func escape(s string) string {
	return strings.ReplaceAll(s, ",", ",,")
}

// validKey says whether QEMU reads a key as one key: an escaped comma in a key is not understood by all of
// QEMU's parsers, and an equals sign by none.
func validKey(key string) bool {
	for _, r := range key {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("-_.[]:/", r) {
			return false
		}
	}
	return key != ""
}

// text returns a scalar as it is written in key=value arguments, and whether it is there at all.
func (v Values) text(value any) (string, bool, error) {
	switch x := value.(type) {
	case string:
		return x, true, nil
	case bool:
		if x {
			return "on", true, nil
		}
		return "off", true, nil
	case json.Number:
		return x.String(), true, nil
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), true, nil
	case int:
		return strconv.Itoa(x), true, nil
	case int64:
		return strconv.FormatInt(x, 10), true, nil
	case map[string]any:
		if ref, ok := asReference(x); ok {
			return v.lookup(ref)
		}
	}
	return "", false, fmt.Errorf("%T is no string, number, boolean or reference", value)
}
