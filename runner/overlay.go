package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cuvee-vm/cuvee/runner/content"
	"github.com/cuvee-vm/cuvee/runner/qcow2"
)

// makeOverlays makes the files that guests write to instead of the disks in images. They go with the run.
func (v *vm) makeOverlays(ctx context.Context) error {
	v.overlays = map[string]map[string]string{}
	for name, c := range v.cfg.Resolve {
		if c.Kind != KindDiskImage || len(c.Alternatives) == 0 {
			continue
		}
		image := c.Alternatives[0]
		disk, err := findDisk(ctx, image[directoryKey], image["path"])
		if err != nil {
			return fmt.Errorf("disk of the image %s: %w", image["reference"], err)
		}
		v.onCleanup(func() { os.Remove(c.Path) })
		if err := v.makeOverlay(ctx, c.Path, disk.size); err != nil {
			return fmt.Errorf("make the overlay for the image %s: %w", image["reference"], err)
		}
		v.overlays[name] = map[string]string{"file": disk.file, "format": disk.format}
	}
	return nil
}

// makeOverlay makes an empty qcow2 image. What is behind it is QEMU told by its options, so that the file names no other.
func (v *vm) makeOverlay(ctx context.Context, path string, size int64) error {
	program, err := findBinary("qemu-img", "qemu-utils", "qemu-img")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "create", "-q", "-f", "qcow2", path, strconv.FormatInt(size, 10))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	return v.cfg.Boot.User.own(path)
}

// imageDisk is a disk in an image.
type imageDisk struct {
	file, format string
	// size is what the guest sees, in bytes.
	size int64
}

// findDisk finds the disk in an image, and refuses one that refers to other files.
func findDisk(ctx context.Context, directory, member string) (imageDisk, error) {
	path, err := content.Source{Path: directory, Member: member}.Locate()
	if err != nil {
		return imageDisk{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return imageDisk{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return imageDisk{}, err
	}
	head := make([]byte, qcow2.HeadSize)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return imageDisk{}, fmt.Errorf("read %s: %w", path, err)
	}
	if head = head[:n]; !qcow2.Is(head) {
		// A guest finds nothing to boot in one that is compressed, or in another format, and nobody would be told why.
		if _, err := content.Identify(ctx, f); err != nil {
			return imageDisk{}, fmt.Errorf("%s: %w", path, err)
		}
		return imageDisk{file: path, format: "raw", size: info.Size()}, nil
	}
	header, err := qcow2.Parse(head)
	if err != nil {
		return imageDisk{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := header.CheckComplete(ctx, f, info.Size()); err != nil {
		return imageDisk{}, fmt.Errorf("%s: %w", path, err)
	}
	return imageDisk{file: path, format: "qcow2", size: header.VirtualSize}, nil
}
