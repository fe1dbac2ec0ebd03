package runner_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner"
)

// A tap device is a port of its bridge while the VM runs, with an MTU and an address that do not change the bridge's, and
// is gone afterwards. The test runs once more in a network namespace of its own.
func TestTap(t *testing.T) {
	const inside = "CUVEE_TEST_TAP"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTap$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := cmd.CombinedOutput()
		if out == nil && err != nil {
			t.Skipf("cannot make a network namespace: %v", err)
		}
		switch {
		case err != nil:
			t.Errorf("%v\n%s", err, out)
		case bytes.Contains(out, []byte("--- SKIP")):
			t.Skipf("%s", out)
		}
		return
	}
	makeBridge(t, "br0", 1400)
	before, err := net.InterfaceByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestPowersOff)
	c.Boot.Taps = []runner.Tap{{FD: "net0", Bridge: "br0"}}
	c.Boot.Args = append(c.Boot.Args,
		runner.Arg{Option: "netdev", JSON: map[string]any{"type": "tap", "id": "net0", "fd": fd("net0")}},
		runner.Arg{Option: "device", JSON: map[string]any{"driver": "virtio-net-pci", "netdev": "net0"}},
	)
	var ports []*net.Interface
	end, err := runner.Run(t.Context(), c, runner.Options{Observe: func(s runner.State) {
		if s == runner.Booting {
			ports = portsOf(t, before.Index)
		}
	}})
	if err != nil || end != runner.EndGuest {
		t.Fatalf("end is %q, error %v", end, err)
	}
	if len(ports) != 1 {
		t.Fatalf("bridge had the ports %v, want one", ports)
	}
	if ports[0].MTU != before.MTU || ports[0].HardwareAddr[0] != 0xfe {
		t.Errorf("port has the MTU %d and the address %s, want %d and fe:…", ports[0].MTU, ports[0].HardwareAddr, before.MTU)
	}
	if left := portsOf(t, before.Index); len(left) != 0 {
		t.Errorf("bridge still has the ports %v", left)
	}
}

func makeBridge(t *testing.T, name string, mtu uint32) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	arg := append([]byte(name), 0)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCBRADDBR, uintptr(unsafe.Pointer(&arg[0]))); errno != 0 {
		t.Skipf("kernel makes no bridge: %v", errno)
	}
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint32(mtu)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFMTU, ifr); err != nil {
		t.Fatal(err)
	}
}

// portsOf returns the interfaces that are ports of a bridge.
func portsOf(t *testing.T, bridge int) []*net.Interface {
	t.Helper()
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		t.Fatal(err)
	}
	var ports []*net.Interface
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWLINK {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attrs {
			if a.Attr.Type != unix.IFLA_MASTER || int(binary.NativeEndian.Uint32(a.Value)) != bridge {
				continue
			}
			port, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(m.Data[4:8])))
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, port)
		}
	}
	return ports
}
