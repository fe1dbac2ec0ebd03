package runner

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
)

// ErrInUse says that another process has a disk image open. Image locking by QEMU tells so.
var ErrInUse = errors.New("disk image is in use")

// inUse is what QEMU says of an image whose lock it does not get. Compiled when it is needed, as few starts do.
var inUse = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Is another process using the image \[(.*)\]\?`)
})

// ErrPort says that the port of the VM's display is taken.
var ErrPort = errors.New("port is in use")

// portInUse is what the SPICE library says of an address that it does not get.
var portInUse = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`binding socket to (\S*):(\d+) failed`)
})

// refusal makes an error of what QEMU said before it ended at its start, and of what
// the TPM emulator said if that has ended, too.
func refusal(qemu, tpm *process) error {
	if m := inUse().FindStringSubmatch(qemu.tail.String()); m != nil {
		return fmt.Errorf("%w: %w: another VM runs with %s", ErrRefused, ErrInUse, m[1])
	}
	if m := portInUse().FindStringSubmatch(qemu.tail.String()); m != nil {
		return fmt.Errorf("%w: %w: SPICE cannot listen at port %s of %s", ErrRefused, ErrPort, m[2], m[1])
	}
	if tpm != nil && tpm.tail.String() != "" {
		return fmt.Errorf("%w: %w; swtpm: %s", ErrRefused, qemu.failure(), tpm.tail)
	}
	return fmt.Errorf("%w: %w", ErrRefused, qemu.failure())
}
