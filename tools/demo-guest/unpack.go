package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// tree is the content of the files of some packages by path, without a leading slash.
type tree map[string][]byte

// match returns the content of the one file that the pattern names.
func (t tree) match(pattern string) ([]byte, error) {
	for name, content := range t {
		if ok, err := path.Match(pattern, name); err != nil || ok {
			return content, err
		}
	}
	return nil, fmt.Errorf("no file %s in the packages", pattern)
}

// wanted tells whether the guest may need a file of a package: the rest is not kept in memory.
func wanted(name string) bool {
	switch path.Ext(name) {
	case ".ko", ".xz", ".efi", ".c32", ".bin":
		return true
	}
	switch path.Base(name) {
	case "busybox", "syslinux", "mtools", "qemu-ga":
		return true
	}
	return strings.HasPrefix(name, "boot/vmlinuz-") || strings.Contains(path.Base(name), ".so")
}

// unpack downloads the packages to dir, where they are missing, and returns their files.
func unpack(ctx context.Context, packages []pkg, dir string) (tree, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	contents := tree{}
	for _, p := range packages {
		deb, err := p.fetch(ctx, dir)
		if err != nil {
			return nil, err
		}
		archive, err := command(ctx, "", nil, "dpkg-deb", "--fsys-tarfile", deb)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", deb, err)
		}
		if err := contents.add(bytes.NewReader(archive)); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", deb, err)
		}
	}
	return contents, nil
}

// add reads the wanted files of a tar archive into the tree.
func (t tree) add(r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if header.Typeflag != tar.TypeReg || !wanted(name) {
			continue
		}
		if t[name], err = io.ReadAll(archive); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}
