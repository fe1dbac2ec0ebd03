// Package diskimage makes OCI images that hold a disk, and gets the disks of such images: from archives, directories and registries.
//
// An image has its disk in the directory /disk, as the containerDisks of KubeVirt have it
// (https://kubevirt.io/user-guide/storage/disks_and_volumes/#containerdisk).
package diskimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// Directory is where an image has its disk.
const Directory = "disk"

// diskOwner is the user who may read the disk: that of QEMU in KubeVirt's images.
const diskOwner = 107

// Build is an image to make.
type Build struct {
	// Disk is the disk, a file; Name is what it is called in the image.
	Disk *os.File
	Name string
	// Reference is what the image is called where the archive is loaded.
	Reference string
	// Report is told how many bytes of the disk have been read.
	Report func(bytes int64)
}

// Write writes the image as an archive, which is an OCI image layout and what "docker load" takes as well. The same disk gives the
// same archive, whenever and by whom it is made. The directory is for a file that is about as large as the archive.
func (b *Build) Write(ctx context.Context, to io.Writer, scratch string) error {
	layer, err := b.layer(ctx, scratch)
	if err != nil {
		return err
	}
	defer os.Remove(layer.file)
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	config, err := json.Marshal(v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Created: epoch,
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer.content}},
		History: []v1.History{{Created: epoch, CreatedBy: "cuvee image build"}},
	})
	if err != nil {
		return err
	}
	configDescriptor := describe(types.OCIConfigJSON, config)
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: configDescriptor,
		Layers: []v1.Descriptor{{MediaType: types.OCILayer, Size: layer.size, Digest: layer.digest}},
	})
	if err != nil {
		return err
	}
	manifestDescriptor := describe(types.OCIManifestSchema1, manifest)
	manifestDescriptor.Platform = &v1.Platform{Architecture: "amd64", OS: "linux"}
	// The first is containerd's name for it, the second that of the specification.
	manifestDescriptor.Annotations = map[string]string{"io.containerd.image.name": b.Reference, "org.opencontainers.image.ref.name": b.Reference}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{manifestDescriptor}})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]map[string]any{{
		"Config": blobPath(configDescriptor.Digest), "RepoTags": []string{b.Reference}, "Layers": []string{blobPath(layer.digest)},
	}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}, {"manifest.json", docker},
		{blobPath(configDescriptor.Digest), config}, {blobPath(manifestDescriptor.Digest), manifest},
	} {
		if err := archive.WriteHeader(entry(file.name, int64(len(file.data)))); err != nil {
			return err
		}
		if _, err := archive.Write(file.data); err != nil {
			return err
		}
	}
	if err := layer.writeTo(archive); err != nil {
		return err
	}
	return archive.Close()
}

// entry is the header of a file in an archive, which says nothing about when and by whom it was made.
func entry(name string, size int64) *tar.Header {
	return &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o444, ModTime: time.Unix(0, 0)}
}

func blobPath(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

func describe(kind types.MediaType, data []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: kind, Size: int64(len(data)), Digest: hashOf(sha256.Sum256(data))}
}

func hashOf(sum [sha256.Size]byte) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum)}
}

func sumOf(h hash.Hash) v1.Hash { return hashOf([sha256.Size]byte(h.Sum(nil))) }

// layer is a compressed layer in a file.
type layer struct {
	file string
	size int64
	// digest is that of the file, content that of what is compressed.
	digest, content v1.Hash
}

// layer makes the image's only layer, which has the disk.
func (b *Build) layer(ctx context.Context, scratch string) (_ *layer, err error) {
	f, err := os.CreateTemp(scratch, ".cuvee-layer-*")
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	info, err := b.Disk.Stat()
	if err != nil {
		return nil, fmt.Errorf("read disk: %w", err)
	}
	digest, content := sha256.New(), sha256.New()
	// A qcow2 image that is compressed already does not get smaller; what a raw one has of zeros the fastest way takes out as well.
	packed, err := gzip.NewWriterLevel(io.MultiWriter(f, digest), gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(io.MultiWriter(packed, content))
	directory := entry(Directory+"/", 0)
	directory.Typeflag, directory.Mode = tar.TypeDir, 0o555
	disk := entry(path.Join(Directory, b.Name), info.Size())
	for _, h := range []*tar.Header{directory, disk} {
		h.Uid, h.Gid = diskOwner, diskOwner
		if err := archive.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("make layer: %w", err)
		}
	}
	if _, err := io.Copy(archive, &counted{io.NewSectionReader(b.Disk, 0, info.Size()), ctx, b.Report, 0}); err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	if err := packed.Close(); err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	return &layer{file: f.Name(), size: size, digest: sumOf(digest), content: sumOf(content)}, nil
}

func (l *layer) writeTo(archive *tar.Writer) error {
	f, err := os.Open(l.file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := archive.WriteHeader(entry(blobPath(l.digest), l.size)); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}

// counted is a reader that tells how much has been read, and ends with its context.
type counted struct {
	io.Reader
	ctx    context.Context
	report func(int64)
	n      int64
}

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	if c.report != nil {
		c.report(c.n)
	}
	return n, err
}

// WriteFile writes the image to a file, which is there as a whole or not at all.
func (b *Build) WriteFile(ctx context.Context, name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := b.Write(ctx, f, filepath.Dir(name)); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}
