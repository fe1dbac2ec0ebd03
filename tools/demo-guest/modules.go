package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
)

// guestModules are the drivers that the guest loads, besides what they depend on. A kernel that has
// one built in, or has it not at all, is fine: then there is no such file.
var guestModules = []string{
	"virtio_pci", "virtio_blk", // the disks
	"nls_ascii", "nls_cp437", "vfat", // the NoCloud disk
	"button", "evdev", // the ACPI power button
	"virtio_net", "virtio_console", "virtio-rng", "virtio_balloon", "virtio_mem",
	"virtio_scsi", "ahci", "sd_mod", "sr_mod", "isofs", // optical drives
	"e1000", "e1000e",
}

// module is a kernel module, uncompressed.
type module struct {
	name    string
	content []byte
}

// modules returns the guest's modules from the kernel package, each after those that it depends on.
// The package has no list of dependencies, since depmod makes that on the installed system: they are
// read from the modules themselves.
func modules(contents tree) ([]module, error) {
	paths := map[string]string{}
	for name := range contents {
		if base, _, ok := strings.Cut(path.Base(name), ".ko"); ok {
			paths[moduleName(base)] = name
		}
	}
	var ordered []module
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		file, ok := paths[name]
		if !ok || seen[name] {
			return nil
		}
		seen[name] = true
		content, err := uncompress(file, contents[file])
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		depends, err := dependencies(content)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		for _, d := range depends {
			if err := add(moduleName(d)); err != nil {
				return err
			}
		}
		ordered = append(ordered, module{name, content})
		return nil
	}
	for _, name := range guestModules {
		if err := add(moduleName(name)); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// moduleName is the kernel's name of a module: file names have dashes in places.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// uncompress returns a module's ELF file: newer Debian kernels ship modules compressed.
func uncompress(name string, content []byte) ([]byte, error) {
	if path.Ext(name) != ".xz" {
		return content, nil
	}
	r, err := xz.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// dependencies returns what a module's "depends" entry names.
func dependencies(content []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(entry), "depends="); ok {
			return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" }), nil
		}
	}
	return nil, nil
}
