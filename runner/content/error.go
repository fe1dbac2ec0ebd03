package content

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cuvee-vm/cuvee/runner/qcow2"
)

// Reason is why a disk could not be filled, in a word for conditions and Events.
type Reason string

// The reasons. What is Unreachable may be tried again, as may what is InUse; for the others something has to change first.
const (
	// InvalidSource: the source is not one that can be used, whatever there is.
	InvalidSource Reason = "InvalidSource"
	// NotFound: there is no such file, or none at this address.
	NotFound Reason = "NotFound"
	// Unauthorized: the server wants credentials, or others.
	Unauthorized Reason = "Unauthorized"
	// Untrusted: the server's certificate is not one that we trust.
	Untrusted Reason = "Untrusted"
	// RedirectRefused: the server sends us to where we do not go.
	RedirectRefused Reason = "RedirectRefused"
	// Unreachable: the server does not answer, not in time, not to the end, or with an error of its own.
	Unreachable Reason = "Unreachable"
	// Truncated: there is less than there should be.
	Truncated Reason = "Truncated"
	// ChecksumMismatch: what came is not what was asked for.
	ChecksumMismatch Reason = "ChecksumMismatch"
	// Corrupt: the content is damaged.
	Corrupt Reason = "Corrupt"
	// UnsupportedFormat: the content is none that becomes a disk.
	UnsupportedFormat Reason = "UnsupportedFormat"
	// BackingFile: the image refers to another file.
	BackingFile Reason = "BackingFile"
	// TooLarge: the content is larger than the disk.
	TooLarge Reason = "TooLarge"
	// NoSpace: the volume is full.
	NoSpace Reason = "NoSpace"
	// InUse: somebody else works on the disk.
	InUse Reason = "InUse"
	// Failed: reading or writing on this machine failed.
	Failed Reason = "Failed"
)

// Error is why a disk could not be filled. Its text is one line, without secrets: of an address neither user, nor password, nor query.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Temporary says whether the same may work later.
func (e *Error) Temporary() bool { return e.Reason == Unreachable || e.Reason == InUse }

func errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// explain gives an error its reason, if it has none yet.
func explain(err error) *Error {
	var known *Error
	reason := Failed
	switch {
	case errors.As(err, &known):
		reason = known.Reason
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		reason = NoSpace
	case errors.Is(err, syscall.EBUSY):
		reason = InUse
	case errors.Is(err, fs.ErrNotExist):
		reason = NotFound
	case errors.Is(err, qcow2.ErrBackingFile):
		reason = BackingFile
	case errors.Is(err, qcow2.ErrUnsupported):
		reason = UnsupportedFormat
	case errors.Is(err, qcow2.ErrCorrupt):
		reason = Corrupt
	}
	return &Error{Reason: reason, Err: err}
}
