package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// initramfs returns the guest's root file system: busybox, kernel modules and the files in guest/root.
// It is not compressed, because an emulated CPU unpacks slower than the firmware reads.
func initramfs(contents tree) ([]byte, error) {
	busybox, err := contents.match("bin/busybox")
	if err != nil {
		busybox, err = contents.match("usr/bin/busybox")
	}
	if err != nil {
		return nil, err
	}
	mods, err := modules(contents)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	archive := newCPIO(&out)
	for _, dir := range []string{"bin", "dev", "proc", "sys", "run", "tmp", "lib", "lib/modules", "mnt", "mnt/cidata"} {
		archive.dir(dir)
	}
	archive.device("dev/console", 5, 1)
	archive.file("bin/busybox", 0o755, busybox)
	archive.link("bin/sh", "busybox")
	var order strings.Builder
	for _, m := range mods {
		archive.file("lib/modules/"+m.name+".ko", 0o644, m.content)
		fmt.Fprintln(&order, m.name)
	}
	archive.file("lib/modules/order", 0o644, []byte(order.String()))
	if err := addRoot(archive); err != nil {
		return nil, err
	}
	if err := archive.close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// addRoot adds the files of guest/root. Embedded files have no mode: those that start with #! are programs.
func addRoot(archive *cpio) error {
	root, err := fs.Sub(sources, "guest/root")
	if err != nil {
		return err
	}
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			archive.dir(name)
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		mode := uint32(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		archive.file(name, mode, content)
		return nil
	})
}
