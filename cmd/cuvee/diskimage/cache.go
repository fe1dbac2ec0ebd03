package diskimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// Policy says when a registry is asked, with the words of a container's imagePullPolicy.
type Policy string

// The policies. IfNotPresent asks the registry for tags that are not here, and for "latest" always, as Kubernetes does.
const (
	Always       Policy = "Always"
	IfNotPresent Policy = "IfNotPresent"
	Never        Policy = "Never"
)

// ErrNotFound says that there is no such disk or image.
var ErrNotFound = errors.New("not found")

// Cache keeps disks that came from images and URLs, by the digest of what they came from. Several processes may use it.
type Cache struct {
	// Dir is the directory, which is made when it is needed.
	Dir string
	// Report is told what is being fetched, and how many bytes of it there are; total is 0 if nobody knows.
	Report func(what string, bytes, total int64)
}

// DefaultDir is the directory of this user's cache.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	return filepath.Join(dir, "cuvee", "images"), nil
}

// Image is what Fetch is to get.
type Image struct {
	// Reference is a file or directory here, an archive or a layout of an OCI image among them, or else an image in a registry.
	Reference string
	// Member is a file in the image; without it all files of its directory "disk" are meant.
	Member string
	// Policy is IfNotPresent if it is empty.
	Policy Policy
}

// Fetch returns a directory that has the files of an image that were asked for, under their paths in it. What is a disk itself, or a directory
// with files, is returned as it is.
func (c *Cache) Fetch(ctx context.Context, want Image) (string, error) {
	dir, err := c.fetch(ctx, want)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", want.Reference, err)
	}
	return dir, nil
}

func (c *Cache) fetch(ctx context.Context, want Image) (string, error) {
	member, err := cleanMember(want.Member)
	if err != nil {
		return "", err
	}
	local, done, err := openLocal(c.Dir, want.Reference)
	if err != nil {
		return "", err
	}
	defer done()
	switch {
	case local == nil && isPath(want.Reference):
		if _, err := os.Stat(want.Reference); err != nil {
			return "", err
		}
		return want.Reference, nil
	case local != nil:
		id, err := local.ConfigName()
		if err != nil {
			return "", fmt.Errorf("read image: %w", err)
		}
		// Nobody has checked that the layers are those of the config, as is done with what comes from a registry.
		return c.unpacked(ctx, local, "local-"+id.Hex, member)
	}
	ref, err := name.ParseReference(want.Reference)
	if err != nil {
		return "", fmt.Errorf("neither a file nor a reference: %w", err)
	}
	return c.pull(ctx, ref, member, want.Policy)
}

// isPath says whether a reference is meant as a path, or is one that is there.
func isPath(reference string) bool {
	if strings.HasPrefix(reference, "/") || strings.HasPrefix(reference, "./") || strings.HasPrefix(reference, "../") {
		return true
	}
	_, err := os.Stat(reference)
	return err == nil
}

func cleanMember(member string) (string, error) {
	member = strings.TrimPrefix(member, "/")
	if member != "" && (!fs.ValidPath(member) || member == ".") {
		return "", fmt.Errorf("%q is no path of a file in an image", member)
	}
	return member, nil
}

// pull gets an image from a registry, unless it is here and the policy is content with that.
func (c *Cache) pull(ctx context.Context, ref name.Reference, member string, policy Policy) (string, error) {
	known := filepath.Join(c.Dir, "refs", digestOf(ref.Name()+"\n"+member))
	here, err := c.known(known)
	if err != nil {
		return "", err
	}
	if here != "" && (policy == Never || policy != Always && ref.Identifier() != name.DefaultTag) {
		return here, nil
	}
	if policy == Never {
		return "", fmt.Errorf("%w here, and the policy is %s", ErrNotFound, Never)
	}
	image, err := openRemote(ctx, ref)
	if offline(err) && here != "" && policy != Always {
		return here, nil
	}
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	dir, err := c.unpacked(ctx, image, digest.Hex, member)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(known), 0o700); err != nil {
		return "", err
	}
	return dir, writeFile(known, filepath.Base(dir))
}

// known returns the directory that a reference meant the last time, "" if there is none.
func (c *Cache) known(file string) (string, error) {
	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.Dir, "disks", filepath.Base(string(key)))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil
	}
	return dir, nil
}

// offline says whether the registry could not be asked at all.
func offline(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// unpacked returns the directory with the disks of an image of a key, which it makes if it is not there.
func (c *Cache) unpacked(ctx context.Context, image v1.Image, key, member string) (string, error) {
	if member != "" {
		key += "-" + digestOf(member)[:16]
	}
	dir := filepath.Join(c.Dir, "disks", key)
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), ".half-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	if err := c.unpack(ctx, image, member, half); err != nil {
		return "", err
	}
	err = os.Rename(half, dir)
	if info, statErr := os.Stat(dir); err != nil && statErr == nil && info.IsDir() {
		// Somebody else was faster.
		return dir, nil
	}
	return dir, err
}

// unpack writes the files of an image that are wanted.
func (c *Cache) unpack(ctx context.Context, image v1.Image, member, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	stream := mutate.Extract(image)
	defer stream.Close()
	files := 0
	for archive := tar.NewReader(stream); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read image: %w", err)
		}
		file := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if h.Typeflag != tar.TypeReg || !isWanted(file, member) {
			continue
		}
		if err := c.save(ctx, root, file, archive, h.Size); err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
		files++
	}
	if files == 0 && member != "" {
		return fmt.Errorf("%w: it has no file /%s", ErrNotFound, member)
	}
	if files == 0 {
		return fmt.Errorf("%w: it has no file in its directory /%s", ErrNotFound, Directory)
	}
	return nil
}

// isWanted says whether a file is the one that is asked for, or is in the directory of disks, if none is.
func isWanted(file, member string) bool {
	if member != "" {
		return file == member
	}
	return path.Dir(file) == Directory
}

// save writes a file, with holes.
func (c *Cache) save(ctx context.Context, root *os.Root, file string, from io.Reader, size int64) error {
	if err := root.MkdirAll(path.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	defer f.Close()
	report := func(bytes int64) {
		if c.Report != nil {
			c.Report(file, bytes, size)
		}
	}
	if _, err := content.CopySparse(ctx, f, &counted{from, ctx, report, 0}); err != nil {
		return err
	}
	return f.Close()
}

// Download returns a file with what is at an address, which has to have a checksum: by that it is known here.
func (c *Cache) Download(ctx context.Context, s content.Source) (string, error) {
	kind, digits, ok := strings.Cut(s.Checksum, ":")
	if !ok || digits == "" || strings.ContainsAny(s.Checksum, "/.") {
		return "", errors.New("what has no checksum cannot be kept")
	}
	file := filepath.Join(c.Dir, "urls", kind+"-"+strings.ToLower(digits))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	err := content.Save(ctx, s, file, func(p content.Progress) {
		if c.Report != nil {
			c.Report(s.String(), p.Bytes, p.Total)
		}
	})
	return file, err
}

func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// writeFile writes a file, which is there as a whole or not at all.
func writeFile(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
