package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cuvee-vm/cuvee/runner/qcow2"
)

// Save writes what a source has to a file, as it is there, and checks its checksum. The file has its name when it is whole.
func Save(ctx context.Context, s Source, path string, report func(Progress)) error {
	sum, err := s.check()
	if err != nil {
		return err
	}
	in, err := s.open(ctx, sum)
	if err != nil {
		return explain(err)
	}
	defer in.close()
	err = replaceFile(path, func(f *os.File) error {
		m := newMeter(report)
		m.begin(Fetching, in.length)
		if _, err := CopySparse(ctx, f, &metered{in, ctx, m}); err != nil {
			return err
		}
		return in.verify()
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("save %s: %w", s, context.Cause(ctx))
	}
	if err != nil {
		return explain(err)
	}
	return nil
}

// replaceFile writes a file, which is there as a whole or not at all.
func replaceFile(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// CopySparse writes a stream to a new file, with holes instead of zeros, and returns how long it is.
func CopySparse(ctx context.Context, to *os.File, from io.Reader) (int64, error) {
	w := &sparseWriter{ctx: ctx, disk: &scratchFile{f: to}}
	if err := copyStream(w, from); err != nil {
		return 0, err
	}
	return w.at, to.Truncate(w.at)
}

// Format is what a disk is in.
type Format string

// The formats that a guest can use as they are.
const (
	Raw   Format = "raw"
	Qcow2 Format = "qcow2"
)

// Identify returns the format of a disk that is a file, after it has been checked that a guest can use it as it is: it is whole sectors of
// raw data or a qcow2 image that is complete and refers to no other file, and not compressed. Errors are *Error.
func Identify(ctx context.Context, f *os.File) (Format, error) {
	info, err := f.Stat()
	if err != nil {
		return "", explain(err)
	}
	head := make([]byte, min(info.Size(), qcow2.HeadSize))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", explain(err)
	}
	if qcow2.Is(head) {
		h, err := qcow2.Parse(head)
		if err == nil {
			err = h.CheckComplete(ctx, f, info.Size())
		}
		if err != nil {
			return "", explain(fmt.Errorf("qcow2 image: %w", err))
		}
		return Qcow2, nil
	}
	if d := findDecoder(head); d != nil {
		return "", errorf(UnsupportedFormat, "the disk is compressed with %s; decompress it", d.name)
	}
	if err := checkFormat(head); err != nil {
		return "", explain(err)
	}
	if info.Size()%sectorSize != 0 {
		return "", errorf(UnsupportedFormat, "the disk has %d bytes, which are no whole sectors of %d", info.Size(), sectorSize)
	}
	return Raw, nil
}
