package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// installBIOS makes an image boot with a legacy BIOS, too: syslinux on the EFI system partition, and its
// boot code in the first sector, which starts the partition with the attribute "legacy BIOS bootable".
//
// Syslinux notes in its own files where they are on the disk, so this takes its installer, which works
// on images by means of mtools. Both are run from the packages, without being installed; dir is where
// they are put.
func installBIOS(ctx context.Context, contents tree, dir, image string) error {
	for _, name := range []string{"syslinux", "mtools"} {
		program, err := contents.match("usr/bin/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o755); err != nil {
			return err
		}
	}
	// The program mtools is all of these, depending on its name.
	for _, name := range []string{"mcopy", "mattrib", "mmove"} {
		if err := os.Symlink("mtools", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	path := "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
	installer := filepath.Join(dir, "syslinux")
	if _, err := command(ctx, "", []string{path}, installer, "--install", "--offset", strconv.Itoa(espStart*sector), image); err != nil {
		return err
	}
	return writeBootCode(contents, image)
}

// writeBootCode puts syslinux' boot code in front of the partition table of the protective MBR.
func writeBootCode(contents tree, image string) error {
	bootCode, err := contents.match("usr/lib/syslinux/mbr/gptmbr.bin")
	if err != nil {
		return err
	}
	const most = 440 // the disk's signature and the partition table follow
	if len(bootCode) > most {
		return fmt.Errorf("boot code of %d bytes, only %d fit", len(bootCode), most)
	}
	disk, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := disk.WriteAt(bootCode, 0); err != nil {
		disk.Close()
		return err
	}
	return disk.Close()
}
