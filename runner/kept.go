package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// keptFile is the file in the data directory with the choices that are kept.
	keptFile = "resolved.json"
	// uuidFile is the file in the data directory with the machine's UUID. VM-Operator has it, too.
	uuidFile = "uuid.txt"
)

// keptChoice is a choice of an earlier start.
type keptChoice struct {
	// From is the alternative that was taken. The choice is kept as long as the config has it.
	From map[string]string `json:"from"`
	// Values are what it stands for: From, with an alias of a machine type replaced.
	Values map[string]string `json:"values"`
	// QEMU identifies the QEMU that Values worked with.
	QEMU string `json:"qemu,omitempty"`
}

// kept are the choices that outlive a start.
type kept struct {
	path    string
	choices map[string]keptChoice
	changed bool
}

// readKept reads the choices in a data directory. A damaged file is an error, as to choose anew might change the guest's hardware.
func readKept(dir string) (*kept, error) {
	k := &kept{path: filepath.Join(dir, keptFile), choices: make(map[string]keptChoice)}
	data, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kept choices: %w", err)
	}
	if err := json.Unmarshal(data, &k.choices); err != nil {
		return nil, fmt.Errorf("read kept choices: %s is damaged (remove it to choose anew): %w", k.path, err)
	}
	return k, nil
}

// get returns the choice of an earlier start, if the config still has the alternative that it came from.
func (k *kept) get(name string, c Choice) (keptChoice, bool) {
	choice, ok := k.choices[name]
	if !ok || !c.Keep {
		return keptChoice{}, false
	}
	same := func(a map[string]string) bool { return maps.Equal(a, choice.From) }
	return choice, slices.ContainsFunc(c.Alternatives, same)
}

func (k *kept) put(name string, choice keptChoice) {
	k.choices[name] = choice
	k.changed = true
}

// save writes the choices if there is something new.
func (k *kept) save() error {
	if !k.changed {
		return nil
	}
	data, err := json.MarshalIndent(k.choices, "", "  ")
	if err != nil {
		return fmt.Errorf("keep choices: %w", err)
	}
	if err := writeFile(k.path, append(data, '\n')); err != nil {
		return fmt.Errorf("keep choices: %w", err)
	}
	k.changed = false
	return nil
}

// keepUUID returns the UUID that is kept in the data directory, or keeps the one given.
func keepUUID(dir, uuid string) (string, error) {
	path := filepath.Join(dir, uuidFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return uuid, writeFile(path, []byte(uuid+"\n"))
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}
