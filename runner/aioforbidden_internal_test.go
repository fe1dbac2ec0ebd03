package runner

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Where a seccomp profile forbids io_uring, as container runtimes' default ones do, the next way of disk access is taken.
func TestAIOWithoutIOUring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	choice := Choice{Kind: KindAIO, Path: path, Alternatives: []map[string]string{
		{"aio": "io_uring", "direct": "off"}, {"aio": "threads", "direct": "off"},
	}}
	choose := func() map[string]string {
		v := newVM(&Config{}, Options{})
		v.kept = &kept{}
		chosen, err := v.choose(t.Context(), "disk0", choice)
		if err != nil {
			t.Error(err)
		}
		return chosen
	}
	if err := tryIOUring(); err != nil {
		t.Skipf("this machine has no io_uring to forbid: %v", err)
	}
	if diff := cmp.Diff(choice.Alternatives[0], choose()); diff != "" {
		t.Errorf("with io_uring (-want +got):\n%s", diff)
	}
	done := make(chan map[string]string)
	go func() {
		// Never unlocked, so that the thread ends with its filter.
		runtime.LockOSThread()
		if err := forbid(unix.SYS_IO_URING_SETUP); err != nil {
			t.Error(err)
		}
		done <- choose()
	}()
	if diff := cmp.Diff(choice.Alternatives[1], <-done); diff != "" {
		t.Errorf("without io_uring (-want +got):\n%s", diff)
	}
}

// forbid makes a system call of this thread fail with EPERM (seccomp(2)).
func forbid(number uint32) error {
	program := []unix.SockFilter{
		// The number is at the beginning of struct seccomp_data.
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	return nil
}
