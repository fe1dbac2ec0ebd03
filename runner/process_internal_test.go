package runner

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is another user than root.
const nobody = 65534

// A runner that is root without CAP_KILL cannot kill a QEMU that is another user's. It says so, and does not wait for ever.
func TestStopWithoutCapability(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("starting a process as another user takes root")
	}
	l := newLauncher()
	defer l.close()
	p, err := startProcess(l, &User{UID: nobody, GID: nobody}, "sleep", []string{"infinity"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() {
		// Never unlocked, so that the thread ends with its lack of capabilities.
		runtime.LockOSThread()
		if err := dropCapability(unix.CAP_KILL); err != nil {
			t.Error(err)
		}
		stopped <- p.stop()
	}()
	if err := <-stopped; !errors.Is(err, syscall.EPERM) {
		t.Errorf("stop without CAP_KILL returns %v, want %v", err, syscall.EPERM)
	}
	if err := p.stop(); err != nil {
		t.Errorf("stop with CAP_KILL returns %v", err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("stop of a process that is gone returns %v", err)
	}
}

// dropCapability takes a capability from the present thread.
func dropCapability(number uint) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[number/32].Effective &^= 1 << (number % 32)
	return unix.Capset(&head, &data[0])
}
