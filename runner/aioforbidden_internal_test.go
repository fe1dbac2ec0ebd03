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

// Where a way of disk access cannot be had, the next one is taken: container runtimes' default seccomp profiles forbid io_uring, and native AIO
// has room for so many VMs on a node.
func TestAIOForbidden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		first map[string]string
		try   func() error
		call  uint32
	}{
		"IOUring": {map[string]string{"aio": "io_uring", "direct": "off"}, tryIOUring, unix.SYS_IO_URING_SETUP},
		"Native":  {map[string]string{"aio": "native", "direct": "on"}, func() error { return tryAIO(path, "native", true) }, unix.SYS_IO_SETUP},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.try(); err != nil {
				t.Skipf("this machine has none to forbid: %v", err)
			}
			choice := Choice{Kind: KindAIO, Path: path, Alternatives: []map[string]string{tc.first, {"aio": "threads", "direct": "off"}}}
			choose := func() map[string]string {
				v := newVM(&Config{}, Options{})
				v.kept = &kept{}
				chosen, err := v.choose(t.Context(), "disk0", choice)
				if err != nil {
					t.Error(err)
				}
				return chosen
			}
			if diff := cmp.Diff(choice.Alternatives[0], choose()); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			done := make(chan map[string]string)
			go func() {
				// Never unlocked, so that the thread ends with its filter.
				runtime.LockOSThread()
				if err := forbid(tc.call); err != nil {
					t.Error(err)
				}
				done <- choose()
			}()
			if diff := cmp.Diff(choice.Alternatives[1], <-done); diff != "" {
				t.Errorf("forbidden (-want +got):\n%s", diff)
			}
		})
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
