package content

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// String names the source, without what could be a secret: user, password and query of an address.
func (s Source) String() string {
	if s.URL == "" {
		return path.Join(s.Path, s.Member)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "url"
	}
	return publicAddress(u)
}

func publicAddress(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// checksum is what the bytes of a source are to add up to.
type checksum struct {
	name string
	new  func() hash.Hash
	want []byte
}

// check refuses a source that cannot be meant, and returns its checksum, nil if it has none.
func (s Source) check() (*checksum, error) {
	switch {
	case (s.URL == "") == (s.Path == ""):
		return nil, errorf(InvalidSource, "source: want either a url or a path")
	case s.Member != "" && s.Path == "":
		return nil, errorf(InvalidSource, "source: a path in an image is nothing for a url")
	case s.Member != "" && !fs.ValidPath(strings.TrimPrefix(s.Member, "/")):
		return nil, errorf(InvalidSource, "source: %q is no path of a file in an image", s.Member)
	}
	if s.URL != "" {
		if err := checkURL(s.URL); err != nil {
			return nil, err
		}
	}
	return parseChecksum(s.Checksum)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The error has the address, with all that is in it.
		return errorf(InvalidSource, "url: not an address")
	case u.Scheme != "http" && u.Scheme != "https":
		return errorf(InvalidSource, "url: scheme %q, want http or https", u.Scheme)
	case u.Host == "":
		return errorf(InvalidSource, "url: no host")
	case u.User != nil:
		return errorf(InvalidSource, "url: user and password do not belong in an address, which everybody can read; use a Secret")
	}
	return nil
}

func parseChecksum(text string) (*checksum, error) {
	if text == "" {
		return nil, nil
	}
	name, digits, _ := strings.Cut(text, ":")
	c := &checksum{name: name}
	switch name {
	case "sha256":
		c.new = sha256.New
	case "sha512":
		c.new = sha512.New
	default:
		return nil, errorf(InvalidSource, "checksum: %q, want sha256:... or sha512:...", text)
	}
	want, err := hex.DecodeString(digits)
	if size := c.new().Size(); err != nil || len(want) != size {
		return nil, errorf(InvalidSource, "checksum: %q, want %s: and %d hexadecimal digits", text, name, 2*size)
	}
	c.want = want
	return c, nil
}

// input is a source that is being read.
type input struct {
	io.Reader
	// file is the file that is read, nil for a URL.
	file *os.File
	// length is how many bytes there are, -1 if nobody knows.
	length int64
	closer io.Closer
	sum    *checksum
	hash   hash.Hash
	read   int64
}

func (s Source) open(ctx context.Context, sum *checksum) (*input, error) {
	in := &input{sum: sum}
	if sum != nil {
		in.hash = sum.new()
	}
	if s.URL != "" {
		r, err := openRemote(ctx, s)
		if err != nil {
			return nil, err
		}
		in.Reader, in.closer, in.length = r, r, r.length
		return in, nil
	}
	f, err := s.openLocal()
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open source: %w", err)
	}
	in.Reader, in.closer, in.file, in.length = f, f, f, info.Size()
	return in, nil
}

// openLocal opens the file, or that in a directory. No link in the directory leads out of it.
func (s Source) openLocal() (*os.File, error) {
	f, err := os.OpenFile(s.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		f.Close()
		return s.openMember()
	}
	if err == nil && s.Member != "" {
		err = errorf(InvalidSource, "source: %s is not a directory, and has no file %q", s.Path, s.Member)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errorf(InvalidSource, "source: %s is not a regular file", s.Path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// disksDir is where a containerDisk has its disk.
const disksDir = "disk"

func (s Source) openMember() (*os.File, error) {
	root, err := os.OpenRoot(s.Path)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	defer root.Close()
	member := strings.TrimPrefix(s.Member, "/")
	if member == "" {
		if member, err = onlyDisk(root.FS()); err != nil {
			return nil, err
		}
	}
	// Without O_NONBLOCK a named pipe would keep us here.
	f, err := root.OpenFile(member, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errorf(NotFound, "the image has no file %q", member)
	}
	if err != nil {
		return nil, errorf(InvalidSource, "open %q in the image: %w", member, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errorf(InvalidSource, "%q in the image is not a regular file", member)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// onlyDisk finds the disk of a containerDisk.
func onlyDisk(image fs.FS) (string, error) {
	entries, err := fs.ReadDir(image, disksDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errorf(InvalidSource, "open /%s in the image: %w", disksDir, err)
	}
	var disks []string
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			disks = append(disks, path.Join(disksDir, entry.Name()))
		}
	}
	switch len(disks) {
	case 0:
		return "", errorf(NotFound, "the image has no file in its directory /%s; name the disk with a path", disksDir)
	case 1:
		return disks[0], nil
	}
	return "", errorf(InvalidSource, "the image has %d files in its directory /%s; name the disk with a path: %s", len(disks), disksDir, strings.Join(disks, ", "))
}

// Read reads the bytes as they are at the source, counts them and adds them up.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	in.read += int64(n)
	if in.hash != nil {
		in.hash.Write(p[:n])
	}
	return n, err
}

// verify reads what is left, and checks that it all was what was wanted.
func (in *input) verify() error {
	if in.sum == nil && in.file != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{in}); err != nil {
		return err
	}
	if in.sum == nil {
		return nil
	}
	if got := in.hash.Sum(nil); string(got) != string(in.sum.want) {
		return errorf(ChecksumMismatch, "checksum: the source has %s:%x, want %x", in.sum.name, got, in.sum.want)
	}
	return nil
}

// counted is how many bytes the source had.
func (in *input) counted() int64 { return max(in.read, in.length) }

func (in *input) close() { in.closer.Close() }
