package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// blockSize is the size of the smallest hole, that of a block of most file systems.
const blockSize = 4096

// sparse is what can be written with holes.
type sparse interface {
	io.WriterAt
	zero(ctx context.Context, at, n int64) error
}

// sparseWriter writes a stream, and makes holes of blocks of zeros.
type sparseWriter struct {
	ctx  context.Context
	disk sparse
	// limit is how much may come, 0 for no limit.
	limit int64
	// at is how much has come; the last zeros of it, from hole on, the disk does not know of yet.
	at, hole int64
}

// Write finds the holes that begin at multiples of the block size of what it gets.
func (w *sparseWriter) Write(p []byte) (int, error) {
	if w.limit > 0 && int64(len(p)) > w.limit-w.at {
		return 0, errorf(TooLarge, "the content is larger than %d bytes, which is all that there may be", w.limit)
	}
	written := len(p)
	for len(p) > 0 {
		n, zero := run(p)
		if !zero {
			if err := w.flush(); err != nil {
				return 0, err
			}
			if _, err := w.disk.WriteAt(p[:n], w.at); err != nil {
				return 0, fmt.Errorf("write disk: %w", err)
			}
			w.hole += int64(n)
		}
		w.at += int64(n)
		p = p[n:]
	}
	return written, nil
}

// run returns how many bytes from the begin are blocks of zeros, or are none.
func run(p []byte) (n int, zero bool) {
	for n < len(p) {
		block := p[n:min(n+blockSize, len(p))]
		is := allZero(block)
		if n == 0 {
			zero = is
		}
		if is != zero {
			return n, zero
		}
		n += len(block)
	}
	return n, zero
}

// skip is as if as many zeros had come, of what is known to fit.
func (w *sparseWriter) skip(n int64) { w.at += n }

// flush tells the disk of zeros that have come last.
func (w *sparseWriter) flush() error {
	if w.hole < w.at {
		if err := w.disk.zero(w.ctx, w.hole, w.at-w.hole); err != nil {
			return err
		}
	}
	w.hole = w.at
	return nil
}

// copyStream writes all of a stream.
func copyStream(w *sparseWriter, r io.Reader) error {
	buf := make([]byte, bufferSize)
	for {
		n, err := io.ReadFull(r, buf)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// scratchFile is a new file.
type scratchFile struct{ f *os.File }

func (s *scratchFile) WriteAt(p []byte, at int64) (int, error) { return s.f.WriteAt(p, at) }

func (s *scratchFile) zero(context.Context, int64, int64) error { return nil }
