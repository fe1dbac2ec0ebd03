// Package nocloud makes data sources for cloud-init: vfat disks labelled CIDATA
// (https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html).
package nocloud

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/fat12"
	"github.com/diskfs/go-diskfs/filesystem/fat16"
)

// Label is the volume label that cloud-init looks for.
const Label = "CIDATA"

// Names of files on the disk that cloud-init knows.
const (
	MetaData      = "meta-data"
	UserData      = "user-data"
	NetworkConfig = "network-config"
)

const (
	// minSize is that of a floppy disk, the smallest disk that every system takes.
	minSize = 1440 << 10
	// fat12Size is the size up to which go-diskfs gets by with FAT12's 4084 clusters of 4 KiB; FAT16 goes on.
	fat12Size = 15 << 20
	// maxCluster is the size of a cluster up to maxSize; each file wastes less than that.
	maxCluster = 8 << 10
	// maxSize is the size of the largest disk.
	maxSize = 256 << 20
)

// ErrTooLarge says that the files do not fit on a disk of a reasonable size.
var ErrTooLarge = errors.New("cloud-init data too large")

// Write makes a disk image with the files, by name, at the root. The image is only readable by its owner and
// replaces what is at the path in one step. cloud-init does not take a disk without user-data, so an empty one is made
// if there is none.
func Write(path string, files map[string][]byte) error {
	if _, ok := files[MetaData]; !ok {
		return fmt.Errorf("make cloud-init disk: no %s", MetaData)
	}
	if _, ok := files[UserData]; !ok {
		files = maps.Clone(files)
		files[UserData] = nil
	}
	size, err := imageSize(files)
	if err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	// CreateTemp makes the file with mode 0600.
	image, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	defer os.Remove(image.Name())
	defer image.Close()
	if err := image.Truncate(size); err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	if err := fill(image, size, files); err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	if err := image.Close(); err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	if err := os.Rename(image.Name(), path); err != nil {
		return fmt.Errorf("make cloud-init disk: %w", err)
	}
	return nil
}

// imageSize returns a size with room for the files and for what the file system needs for itself:
// allocation tables of up to 2 × 2 bytes for each KiB, the root directory, boot sectors.
func imageSize(files map[string][]byte) (int64, error) {
	content := int64(0)
	for _, data := range files {
		content += (int64(len(data)) + maxCluster - 1) / maxCluster * maxCluster
	}
	size := max(content+content/128+128<<10, minSize)
	if size > maxSize {
		return 0, fmt.Errorf("%w: %d MiB, at most %d", ErrTooLarge, content>>20, maxSize>>20)
	}
	// Whole MiB beyond the floppy, so that few sizes exist.
	if size > minSize {
		size = (size + 1<<20 - 1) >> 20 << 20
	}
	return size, nil
}

func fill(image *os.File, size int64, files map[string][]byte) error {
	fs, err := create(image, size)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := put(fs, name, files[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return fs.Close()
}

func create(image *os.File, size int64) (filesystem.FileSystem, error) {
	storage := file.New(image, false)
	if size <= fat12Size {
		return fat12.Create(storage, size, 0, 512, Label, false)
	}
	return fat16.Create(storage, size, 0, 512, Label, false)
}

func put(fs filesystem.FileSystem, name string, data []byte) error {
	if name == "" || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("%q is no file name", name)
	}
	f, err := fs.OpenFile("/"+name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(data) == 0 {
		return nil
	}
	_, err = f.Write(data)
	return err
}
