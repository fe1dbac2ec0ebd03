// Package firmware finds firmware through the descriptors that distributions install for QEMU, as
// docs/interop/firmware.json in QEMU specifies them.
package firmware

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Directories are where descriptors are, those of the distribution first. A file in a later directory takes the place of
// one of the same name in an earlier one, and one without content masks it.
var Directories = []string{"/usr/share/qemu/firmware", "/etc/qemu/firmware"}

// ErrNone says that no installed firmware is as asked for.
var ErrNone = errors.New("no firmware descriptor fits")

// Query says which firmware is wanted.
type Query struct {
	// Interface is the kind of interface to the guest: "uefi", "bios" …
	Interface string
	// Architecture is the guest's, in QEMU's words: "x86_64".
	Architecture string
	// Machine is a machine type, "pc-q35-7.2", or a pattern as descriptors have it, "pc-q35-*".
	Machine string
	// With are features that the firmware has to have, Without those that it must not have: "secure-boot",
	// "enrolled-keys", "requires-smm" …
	With, Without []string
}

// Files are the files of a firmware in two flash chips.
type Files struct {
	// Code is the executable, Vars the template of the variables.
	Code, Vars string
}

// descriptor is as much as is looked at here of a descriptor.
type descriptor struct {
	Interfaces []string `json:"interface-types"`
	Mapping    struct {
		Device     string `json:"device"`
		Mode       string `json:"mode"`
		Executable file   `json:"executable"`
		Template   file   `json:"nvram-template"`
	} `json:"mapping"`
	Targets []struct {
		Architecture string   `json:"architecture"`
		Machines     []string `json:"machines"`
	} `json:"targets"`
	Features []string `json:"features"`
}

type file struct {
	Name   string `json:"filename"`
	Format string `json:"format"`
}

// Find returns the first firmware that is as asked for: descriptors count in the order of their names. Only raw images
// of code and variables in separate files are considered, and only if both are there. Descriptors that cannot be read are in
// the error if nothing else fits.
func Find(directories []string, q Query) (Files, error) {
	faults := []error{fmt.Errorf("%w: %+v", ErrNone, q)}
	for _, name := range list(directories) {
		files, err := read(name, q)
		if err != nil {
			faults = append(faults, fmt.Errorf("read firmware descriptor %s: %w", name, err))
		}
		if files != nil {
			return *files, nil
		}
	}
	return Files{}, errors.Join(faults...)
}

// list returns the descriptors' paths in order of precedence.
func list(directories []string) []string {
	paths := make(map[string]string)
	for _, dir := range directories {
		// A pattern without special characters but the star cannot be malformed.
		found, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		for _, name := range found {
			paths[filepath.Base(name)] = name
		}
	}
	var ordered []string
	for _, base := range slices.Sorted(maps.Keys(paths)) {
		ordered = append(ordered, paths[base])
	}
	return ordered
}

// read returns the files that a descriptor names, nil if they are not as asked for.
func read(name string, q Query) (*Files, error) {
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var d descriptor
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	if !d.fits(q) {
		return nil, nil
	}
	for _, f := range []file{d.Mapping.Executable, d.Mapping.Template} {
		if _, err := os.Stat(f.Name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return nil, err
		}
	}
	return &Files{Code: d.Mapping.Executable.Name, Vars: d.Mapping.Template.Name}, nil
}

func (d *descriptor) fits(q Query) bool {
	m := d.Mapping
	if m.Device != "flash" || m.Mode != "" && m.Mode != "split" || m.Executable.Format != "raw" || m.Template.Format != "raw" {
		return false
	}
	has := func(feature string) bool { return slices.Contains(d.Features, feature) }
	for _, feature := range q.With {
		if !has(feature) {
			return false
		}
	}
	return slices.Contains(d.Interfaces, q.Interface) && !slices.ContainsFunc(q.Without, has) && d.runsOn(q)
}

func (d *descriptor) runsOn(q Query) bool {
	for _, t := range d.Targets {
		if t.Architecture != q.Architecture {
			continue
		}
		for _, pattern := range t.Machines {
			if ok, err := path.Match(pattern, q.Machine); ok && err == nil {
				return true
			}
		}
	}
	return false
}
