package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/cmd/cuvee/diskimage"
	"github.com/cuvee-vm/cuvee/runner/content"
)

func newImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make images of disks",
		Long:  "Make OCI images that hold a disk, for disks[].image and disks[].source.image of a VirtualMachine, and as a containerDisk of KubeVirt.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImageBuildCommand())
	return cmd
}

type imageBuildFlags struct {
	out, name string
}

func newImageBuildCommand() *cobra.Command {
	var f imageBuildFlags
	cmd := &cobra.Command{
		Use:   "build DISK -o IMAGE.tar",
		Short: "Make an OCI image that holds a disk",
		Long: `Make an OCI image that holds a disk, a file in raw or qcow2 format. A qcow2 image is usually the better one: nodes keep it
as it is, and a raw one with all of its zeros.

The disk is in the directory /disk of the image, where it belongs to the user 107 and everybody may read it, as in a containerDisk of
KubeVirt. The image is for linux/amd64. It is written as an archive that "docker load", "podman load", "ctr images import" and
"skopeo copy" (oci-archive:IMAGE.tar) take. The same disk always gives the same archive.

A disk that refers to other files, such as a qcow2 image with a backing file, is refused; so is one that is compressed as a whole.`,
		Example: `  cuvee image build debian.qcow2 -o debian.tar
  cuvee image build debian.qcow2 -o debian.tar --name registry.example.com/disks/debian:13`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, fmt.Errorf("want one disk, got %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "the `FILE` to write, required")
	cmd.Flags().StringVar(&f.name, "name", "", "the image's `REFERENCE` where the archive is loaded; the name of the disk's file if not given")
	return cmd
}

func (f *imageBuildFlags) run(cmd *cobra.Command, path string) error {
	if f.out == "" {
		return usage(cmd, errors.New("name the file to write with -o"))
	}
	if f.name == "" {
		f.name = imageName(path)
	}
	ref, err := name.NewTag(f.name)
	if err != nil {
		return usage(cmd, fmt.Errorf("--name %s: %w", f.name, err))
	}
	disk, err := os.Open(path)
	if err != nil {
		return err
	}
	defer disk.Close()
	info, err := disk.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	// A file is replaced; a device or a pipe would be, too.
	if there, err := os.Stat(f.out); err == nil && os.SameFile(info, there) {
		return fmt.Errorf("%s is the disk itself", f.out)
	} else if err == nil && !there.Mode().IsRegular() {
		return fmt.Errorf("%s is there, and is not a regular file", f.out)
	}
	if _, err := content.Identify(cmd.Context(), disk); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	bar := newProgressLine(cmd.ErrOrStderr(), "image", info.Size())
	defer bar.end()
	// A Ctrl-C leaves nothing behind.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// containerd has the Docker Hub under the name that people write.
	reference := strings.Replace(ref.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	build := diskimage.Build{Disk: disk, Name: filepath.Base(path), Reference: reference, Report: bar.set}
	return build.WriteFile(ctx, f.out)
}

// notInName is what a name in a reference cannot have, or not at its ends.
var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// imageName makes the name of an image of that of a file.
func imageName(path string) string {
	base := strings.ToLower(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	if base = strings.Trim(notInName.ReplaceAllString(base, "-"), "-"); base == "" {
		return diskimage.Directory
	}
	return base
}
