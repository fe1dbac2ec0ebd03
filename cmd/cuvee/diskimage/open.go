package diskimage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// platform is that of the images that we take.
var platform = v1.Platform{OS: "linux", Architecture: "amd64"}

// openRemote opens an image in a registry, with the credentials that docker and podman have for it.
func openRemote(ctx context.Context, ref name.Reference) (v1.Image, error) {
	return remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// layoutFile is what makes a directory or an archive an OCI image layout, dockerFile what makes an archive one of "docker save".
const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
	dockerFile = "manifest.json"
)

// openLocal opens an image in an archive or a layout directory. It returns nil for what is neither. With done the image is given up.
func openLocal(scratch, file string) (_ v1.Image, done func(), err error) {
	none := func() {}
	info, err := os.Stat(file)
	if err != nil {
		return nil, none, nil //nolint:nilerr // it is no image in a file
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(file, layoutFile)); err != nil {
			return nil, none, nil //nolint:nilerr // it is a directory with other files
		}
		image, err := openLayout(file)
		return image, none, err
	}
	if !info.Mode().IsRegular() {
		return nil, none, nil
	}
	files, err := archiveFiles(file)
	switch {
	case err != nil:
		return nil, none, fmt.Errorf("read archive: %w", err)
	case files[dockerFile]:
		image, err := tarball.ImageFromPath(file, nil)
		return image, none, err
	case files[layoutFile]:
		return openArchive(scratch, file)
	}
	return nil, none, nil
}

// archiveFiles returns the files at the top of a tar archive, nil for what is none.
func archiveFiles(file string) (map[string]bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files := map[string]bool{}
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if errors.Is(err, tar.ErrHeader) && len(files) == 0 || errors.Is(err, io.ErrUnexpectedEOF) && len(files) == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		files[path.Clean(h.Name)] = true
	}
}

// openArchive unpacks an archive of an OCI image layout for as long as it is needed.
func openArchive(scratch, file string) (v1.Image, func(), error) {
	none := func() {}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, none, err
	}
	dir, err := os.MkdirTemp(scratch, ".layout-*")
	if err != nil {
		return nil, none, err
	}
	done := func() { os.RemoveAll(dir) }
	err = unpackLayout(file, dir)
	var image v1.Image
	if err == nil {
		image, err = openLayout(dir)
	}
	if err != nil {
		done()
		return nil, none, fmt.Errorf("read archive: %w", err)
	}
	return image, done, nil
}

// unpackLayout unpacks what belongs to a layout, and nothing out of its directory.
func unpackLayout(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		to := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || to != layoutFile && to != indexFile && !strings.HasPrefix(to, "blobs/") {
			continue
		}
		if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
			return err
		}
		if err := unpackFile(root, to, archive); err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, to string, from io.Reader) error {
	f, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// openLayout opens the only image of a layout for our platform.
func openLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read OCI image layout: %w", err)
	}
	images, err := imagesOf(index, 0)
	if err != nil {
		return nil, fmt.Errorf("read OCI image layout: %w", err)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("the OCI image layout has %d images for linux/amd64, want one", len(images))
	}
	return images[0], nil
}

// maxNesting is how deep indexes of indexes may be.
const maxNesting = 4

func imagesOf(index v1.ImageIndex, depth int) ([]v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var images []v1.Image
	for _, d := range manifest.Manifests {
		switch {
		case d.MediaType.IsIndex() && depth < maxNesting:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			more, err := imagesOf(inner, depth+1)
			if err != nil {
				return nil, err
			}
			images = append(images, more...)
		case d.MediaType.IsImage() && (d.Platform == nil || d.Platform.Satisfies(platform)):
			image, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			images = append(images, image)
		}
	}
	return images, nil
}
