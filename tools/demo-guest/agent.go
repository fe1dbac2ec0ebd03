package main

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// agentPackage has QEMU's guest agent.
const agentPackage = "qemu-guest-agent"

// interpreter is where the agent's program has its loader.
const interpreter = "lib64/ld-linux-x86-64.so.2"

// buildAgent writes an archive with QEMU's guest agent to out, as a disk that the guest unpacks with
//
//	cd / && cpio -idu </dev/vdb
//
// unless that was already made from the same packages by the same program.
func buildAgent(ctx context.Context, out, cache string, w io.Writer) error {
	packages, err := withDependencies(ctx, agentPackage)
	if err != nil {
		return err
	}
	digest, err := inputDigest(packages)
	if err != nil {
		return err
	}
	stamp := out + ".inputs"
	if upToDate(out, stamp, digest) {
		fmt.Fprintf(w, "%s is up to date\n", out)
		return nil
	}
	contents, err := unpack(ctx, packages, cache)
	if err != nil {
		return err
	}
	archive, err := agentArchive(contents)
	if err != nil {
		return fmt.Errorf("make the agent's archive: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make the archive's directory: %w", err)
	}
	// Without a stamp an archive that is only half there is made again.
	if err := os.Remove(stamp); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the old stamp: %w", err)
	}
	if err := os.WriteFile(out, archive, 0o644); err != nil {
		return fmt.Errorf("write the agent's archive: %w", err)
	}
	if err := os.WriteFile(stamp, []byte(digest), 0o644); err != nil {
		return fmt.Errorf("write the stamp: %w", err)
	}
	fmt.Fprintf(w, "%s is ready\n", out)
	return nil
}

// withDependencies returns a package and all that it depends on, in the versions that apt would install.
func withDependencies(ctx context.Context, name string) ([]pkg, error) {
	var packages []pkg
	known := map[string]bool{name: true}
	for next := []string{name}; len(next) > 0; {
		fields, err := show(ctx, next)
		if err != nil {
			return nil, err
		}
		var later []string
		for _, name := range next {
			packages = append(packages, pkg{name, fields[name]["Version"]})
			for dependency := range strings.SplitSeq(fields[name]["Depends"], ",") {
				// Of alternatives the first is what apt takes; "name:any (>= 1)" is the name.
				name, _, _ := strings.Cut(dependency, "|")
				name, _, _ = strings.Cut(name, "(")
				name, _, _ = strings.Cut(strings.TrimSpace(name), ":")
				if name != "" && !known[name] {
					known[name] = true
					later = append(later, name)
				}
			}
		}
		next = later
	}
	return packages, nil
}

// agentArchive returns a cpio archive with the agent, the libraries that it needs, and what it looks for in a guest.
func agentArchive(contents tree) ([]byte, error) {
	program, err := contents.match("usr/sbin/qemu-ga")
	if err != nil {
		return nil, err
	}
	libraries, err := libraries(contents, program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	archive := newCPIO(&out)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64", "etc"} {
		archive.dir(dir)
	}
	archive.file("bin/qemu-ga", 0o755, program)
	for _, l := range libraries {
		name := "lib/" + l.name
		if l.name == path.Base(interpreter) {
			name = interpreter
		}
		archive.file(name, 0o755, l.content)
	}
	// The agent runs it to shut the guest down.
	archive.file("sbin/shutdown", 0o755, []byte("#!/bin/sh\nexec poweroff\n"))
	archive.file("etc/os-release", 0o644, []byte("ID=cuvee-demo\nNAME=\"Cuvee demo guest\"\nPRETTY_NAME=\"Cuvee demo guest 1\"\nVERSION_ID=1\n"))
	if err := archive.close(); err != nil {
		return nil, err
	}
	// A disk has whole sectors.
	return append(out.Bytes(), make([]byte, 4096-out.Len()%4096)...), nil
}

// library is a shared library by the name that programs have for it.
type library struct {
	name    string
	content []byte
}

// libraries returns what a program needs, and what that needs, and the loader.
func libraries(contents tree, program []byte) ([]library, error) {
	byName := map[string][]byte{}
	for _, content := range contents {
		if f, err := elf.NewFile(bytes.NewReader(content)); err == nil {
			if name, err := f.DynString(elf.DT_SONAME); err == nil && len(name) == 1 {
				byName[name[0]] = content
			}
		}
	}
	var all []library
	// add adds what a program or library needs, and what that needs.
	var add func(content []byte) error
	take := func(name string) error {
		if slices.ContainsFunc(all, func(l library) bool { return l.name == name }) {
			return nil
		}
		content, ok := byName[name]
		if !ok {
			return fmt.Errorf("no library %s in the packages", name)
		}
		all = append(all, library{name, content})
		return add(content)
	}
	add = func(content []byte) error {
		f, err := elf.NewFile(bytes.NewReader(content))
		if err != nil {
			return err
		}
		needed, err := f.ImportedLibraries()
		for i := 0; i < len(needed) && err == nil; i++ {
			err = take(needed[i])
		}
		return err
	}
	if err := take(path.Base(interpreter)); err != nil {
		return nil, err
	}
	return all, add(program)
}
