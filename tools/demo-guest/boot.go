package main

import (
	"fmt"
	"strings"
)

// The paths of the kernel and its initramfs on the EFI system partition.
const (
	kernelPath = "/vmlinuz"
	initrdPath = "/initrd"
)

// bootFiles returns the content of the EFI system partition: the kernel, its initramfs, and the boot
// loaders of both kinds of firmware with their configuration.
func bootFiles(contents tree) ([]file, error) {
	files := []file{
		{path: "/EFI/BOOT/BOOTX64.EFI"},
		{path: "/ldlinux.c32"},
		{path: kernelPath},
	}
	for i, pattern := range []string{
		"usr/lib/systemd/boot/efi/systemd-bootx64.efi",
		"usr/lib/syslinux/modules/bios/ldlinux.c32",
		"boot/vmlinuz-*",
	} {
		content, err := contents.match(pattern)
		if err != nil {
			return nil, err
		}
		files[i].content = content
	}
	initrd, err := initramfs(contents)
	if err != nil {
		return nil, fmt.Errorf("make the initramfs: %w", err)
	}
	config, err := bootConfig()
	if err != nil {
		return nil, err
	}
	return append(files, append(config, file{initrdPath, initrd})...), nil
}

// bootConfig returns the configuration of both boot loaders. Neither shows a menu.
//
// See loader.conf(5), https://uapi-group.org/specifications/specs/boot_loader_specification/ and
// https://wiki.syslinux.org/wiki/index.php?title=Config.
func bootConfig() ([]file, error) {
	line, err := sources.ReadFile("guest/cmdline")
	if err != nil {
		return nil, err
	}
	cmdline := strings.TrimSpace(string(line))
	loader := "default demo.conf\ntimeout 0\neditor no\nauto-entries no\nauto-firmware no\n"
	entry := "title Cuvee demo guest\nlinux %s\ninitrd %s\noptions %s\n"
	syslinux := "default demo\nprompt 0\nlabel demo\n linux %s\n initrd %s\n append %s\n"
	return []file{
		{"/loader/loader.conf", []byte(loader)},
		{"/loader/entries/demo.conf", fmt.Appendf(nil, entry, kernelPath, initrdPath, cmdline)},
		{"/syslinux.cfg", fmt.Appendf(nil, syslinux, kernelPath, initrdPath, cmdline)},
	}, nil
}
