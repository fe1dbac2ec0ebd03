// Package content fills a disk once with what an image holds: an image file on this machine or at an http address, raw or
// qcow2, as it is or compressed.
//
// A disk is filled as a whole or not at all, wherever the work is interrupted, and without a record beside it:
//
//   - A file is written under another name, see Leftover, and gets its own when all of it is on the storage.
//   - Of a block device the first sector is written last. Until then it has a header of ours, which no firmware boots, and by
//     which everybody sees that the rest is not whole.
//
// What has content is left alone: only a disk without any, or one with such a header, is filled.
package content

import (
	"context"
	"fmt"
	"time"
)

// Source is where a disk's content comes from: URL or Path.
type Source struct {
	// URL is an http or https address.
	URL string
	// Path is a regular file, or a directory that holds the files of an OCI image.
	Path string
	// Member is a file in that directory, by its path from there; without it the only regular file in its directory "disk" is meant,
	// as in a containerDisk of KubeVirt.
	Member string
	// Checksum is "sha256:" or "sha512:" and a hexadecimal number: of the bytes at the address or in the file, as they are there.
	// Without it they are not checked.
	Checksum string
	// Credentials are for the server of the URL, and for no other.
	Credentials Credentials
	// CAFile is a file with certificates (PEM) of authorities that are trusted for this source, beside those of the system.
	CAFile string
	// Proxy is the address of an http proxy for the URL; without it the environment says (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
	Proxy string
	// Patience says how long a server is waited for.
	Patience Patience
}

// Patience is how long a server is waited for. What is zero has a default.
type Patience struct {
	// Stall is how long nothing may come before a connection is taken for dead; a minute.
	Stall time.Duration
	// Backoff is how long to wait before a second request; a second. It doubles with each further one, up to half a minute.
	Backoff time.Duration
	// Tries is how many requests in a row may bring nothing; 6.
	Tries int
}

// Target is the disk.
type Target struct {
	// Path is a file, which need not be there, or a block device.
	Path string
	// Size is the size of a file in bytes, 0 for that of the content. A block device has its own.
	Size int64
	// Scratch is a directory for what cannot be streamed, which is qcow2 from a URL or compressed. What is there has no name, and is gone
	// with this process. Without it the directory of a file is taken, or that for temporary files.
	Scratch string
	// Own is called with the name of a file before that is the disk, to give it to whom it belongs.
	Own func(path string) error
}

// Phase is what is done at a time.
type Phase string

// The phases. Not each disk has each of them.
const (
	// Fetching: the content is written to the disk as it comes, or to a scratch file.
	Fetching Phase = "Fetching"
	// Converting: an image is converted into the disk.
	Converting Phase = "Converting"
	// Zeroing: what the content does not cover of a block device is cleared.
	Zeroing Phase = "Zeroing"
	// Syncing: the storage is asked to have everything.
	Syncing Phase = "Syncing"
)

// Progress is how far a phase has come.
type Progress struct {
	Phase Phase
	// Bytes is how many of Total there are; while fetching, as they come, that is compressed ones if they are. Total is 0 if nobody knows.
	Bytes, Total int64
	// Rate is how many of them came in a second lately.
	Rate int64
}

// Percent returns how far the phase is, -1 if nobody knows.
func (p Progress) Percent() int {
	if p.Total <= 0 {
		return -1
	}
	return int(float64(p.Bytes) / float64(p.Total) * 100)
}

// Outcome is what became of a disk.
type Outcome string

// The outcomes.
const (
	// Filled: the disk has the source's content now.
	Filled Outcome = "Filled"
	// Kept: the disk had content, and has been left alone.
	Kept Outcome = "Kept"
)

// Result is what has been done.
type Result struct {
	Outcome Outcome
	// Read is how many bytes the source had, Size how many the content has, as the guest sees it. Both are 0 for what was kept.
	Read, Size int64
}

// Fill fills the disk if it has no content yet. About once a second it reports how far it is.
//
// If it fails, the disk still has no content, or visibly is not whole, and the next call starts over. Errors are *Error, but for those
// of a context that has ended.
func Fill(ctx context.Context, s Source, t Target, report func(Progress)) (Result, error) {
	result, err := fill(ctx, s, t, report)
	if err != nil && ctx.Err() != nil {
		return Result{}, fmt.Errorf("fill %s: %w", t.Path, context.Cause(ctx))
	}
	if err != nil {
		return Result{}, explain(err)
	}
	return result, nil
}

func fill(ctx context.Context, s Source, t Target, report func(Progress)) (Result, error) {
	sum, err := s.check()
	if err != nil {
		return Result{}, err
	}
	state, err := Look(t.Path)
	if err != nil {
		return Result{}, err
	}
	if state == HasContent {
		return Result{Outcome: Kept}, dropLeftover(t.Path)
	}
	disk, err := openTarget(ctx, t)
	if err != nil {
		return Result{}, err
	}
	if disk == nil {
		return Result{Outcome: Kept}, nil
	}
	defer disk.close()
	in, err := s.open(ctx, sum)
	if err != nil {
		return Result{}, err
	}
	defer in.close()
	f := filling{disk: disk, in: in, scratch: t.scratch(), meter: newMeter(report)}
	size, err := f.run(ctx, s.String())
	if err != nil {
		return Result{}, err
	}
	return Result{Outcome: Filled, Read: in.counted(), Size: size}, nil
}
