package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// file is a file of the EFI system partition.
type file struct {
	path    string
	content []byte
}

const (
	sector = 512
	// espStart is 1 MiB, as partitioning tools align.
	espStart = 2048
	// espSize holds the boot files with room for a larger kernel. The image is sparse.
	espSize = 64 << 20
	// Fixed identifiers make the image reproducible: nobody has two of these disks in one VM and
	// looks for a partition by its identifier.
	diskGUID = "5B1F0F4E-6D0B-4B0F-9B5C-0D3C1C2A6E01"
	espGUID  = "5B1F0F4E-6D0B-4B0F-9B5C-0D3C1C2A6E02"
	// legacyBootable is the attribute of the partition that boot code for a BIOS starts.
	legacyBootable = 1 << 2
	// fileTime is the time of the files, in seconds since 1970 (2020-01-01): a FAT file system has to have one.
	fileTime = "1577836800"
)

// writeDisk makes a disk image with an EFI system partition that holds files. The image takes its name
// when it is complete: after finish, which gets an empty directory for its own use, and the image.
func writeDisk(name string, files []file, finish func(dir, image string) error) (err error) {
	// go-diskfs and mtools take the time of files from here, by the convention of reproducible-builds.org.
	if err := os.Setenv("SOURCE_DATE_EPOCH", fileTime); err != nil {
		return err
	}
	parent, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, ".demo-guest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	image := filepath.Join(dir, "image")
	if err := fillDisk(image, files); err != nil {
		return err
	}
	tools := filepath.Join(dir, "tools")
	if err := os.Mkdir(tools, 0o755); err != nil {
		return err
	}
	if err := finish(tools, image); err != nil {
		return fmt.Errorf("finish the image: %w", err)
	}
	return os.Rename(image, name)
}

func fillDisk(image string, files []file) (err error) {
	d, err := diskfs.Create(image, espStart*sector+espSize+1<<20, diskfs.SectorSizeDefault)
	if err != nil {
		return fmt.Errorf("create the image: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	table := &gpt.Table{
		GUID:          diskGUID,
		ProtectiveMBR: true,
		Partitions: []*gpt.Partition{{
			Index: 1, Start: espStart, Size: espSize,
			Type: gpt.EFISystemPartition, Name: "EFI System", GUID: espGUID,
			Attributes: legacyBootable,
		}},
	}
	if err := d.Partition(table); err != nil {
		return fmt.Errorf("partition the image: %w", err)
	}
	// FAT16 at this size has larger clusters than FAT32, so the firmware reads fewer of them.
	esp, err := d.CreateFilesystem(disk.FilesystemSpec{
		Partition: 1, FSType: filesystem.TypeFat16, VolumeLabel: "DEMO", Reproducible: true,
	})
	if err != nil {
		return fmt.Errorf("format the EFI system partition: %w", err)
	}
	for _, f := range files {
		if err := writeFile(esp, f); err != nil {
			return fmt.Errorf("write %s to the EFI system partition: %w", f.path, err)
		}
	}
	return nil
}

func writeFile(fs filesystem.FileSystem, f file) (err error) {
	if err := fs.Mkdir(path.Dir(f.path)); err != nil {
		return err
	}
	w, err := fs.OpenFile(f.path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = w.Write(f.content)
	return err
}
