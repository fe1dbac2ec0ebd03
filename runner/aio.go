package runner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tryAIO returns why a way of asynchronous I/O does not work with the file or device.
func tryAIO(path, aio string, direct bool) error {
	if aio == "native" {
		if !direct {
			return fmt.Errorf("native AIO needs direct I/O")
		}
		if err := tryNative(); err != nil {
			return err
		}
	}
	if aio == "io_uring" {
		if err := tryIOUring(); err != nil {
			return err
		}
	}
	if direct {
		return tryDirect(path)
	}
	return nil
}

// tryIOUring makes a small ring: a seccomp profile or a sysctl may forbid it.
func tryIOUring() error {
	// struct io_uring_params, all zero.
	var params [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return fmt.Errorf("io_uring: %w", errno)
	}
	return unix.Close(int(fd))
}

// nativeEvents is how many requests QEMU has room made for (MAX_EVENTS of its block/linux-aio.c).
const nativeEvents = 1024

// tryNative makes room for as many requests as QEMU does. All programs of a node share it: with the kernel's default for fs.aio-max-nr there is
// none after some thirty VMs.
func tryNative() error {
	var room uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, nativeEvents, uintptr(unsafe.Pointer(&room)), 0); errno != 0 {
		return fmt.Errorf("native AIO (the node's fs.aio-max-nr may be used up): %w", errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IO_DESTROY, room, 0, 0); errno != 0 {
		return fmt.Errorf("native AIO: %w", errno)
	}
	return nil
}

// tryDirect opens the file without the page cache, which some file systems refuse.
func tryDirect(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open %s for direct I/O: %w", path, err)
	}
	return unix.Close(fd)
}
