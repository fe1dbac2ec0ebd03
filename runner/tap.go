package runner

import (
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openTaps makes the tap devices, attached to their bridges. A device is gone when all who have it open have closed it.
func openTaps(taps []Tap) (map[string]*os.File, error) {
	files := make(map[string]*os.File)
	for _, t := range taps {
		f, err := t.open()
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, fmt.Errorf("make tap device on bridge %s: %w", t.Bridge, err)
		}
		files[t.FD] = f
	}
	return files, nil
}

// tapNames returns the names of tap devices.
func tapNames(taps map[string]*os.File) (map[string]string, error) {
	names := make(map[string]string)
	for fd, f := range taps {
		ifr, err := unix.NewIfreq("")
		if err != nil {
			return nil, err
		}
		if err := unix.IoctlIfreq(int(f.Fd()), unix.TUNGETIFF, ifr); err != nil {
			return nil, fmt.Errorf("TUNGETIFF: %w", err)
		}
		names[fd] = ifr.Name()
	}
	return names, nil
}

// open makes a tap device with a name that the kernel chooses.
func (t Tap) open() (*os.File, error) {
	bridge, err := net.InterfaceByName(t.Bridge)
	if err != nil {
		return nil, err
	}
	// Not by os.OpenFile: its poller does not take the file before it has a device.
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	f := os.NewFile(uintptr(fd), "/dev/net/tun")
	ifr, err := unix.NewIfreq("")
	if err != nil {
		f.Close()
		return nil, err
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		f.Close()
		return nil, fmt.Errorf("TUNSETIFF: %w", err)
	}
	if err := attachTap(ifr.Name(), bridge); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// attachTap makes a device a port of the bridge and brings it up.
func attachTap(name string, bridge *net.Interface) error {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(s)
	// A bridge takes the smallest MTU and the lowest address of its ports for its own; a port must change neither.
	if err := setMTU(s, name, bridge.MTU); err != nil {
		return fmt.Errorf("set MTU of %s: %w", name, err)
	}
	if err := setHighAddress(s, device); err != nil {
		return fmt.Errorf("set address of %s: %w", name, err)
	}
	port, err := unix.NewIfreq(bridge.Name)
	if err != nil {
		return err
	}
	port.SetUint32(uint32(device.Index))
	if err := unix.IoctlIfreq(s, unix.SIOCBRADDIF, port); err != nil {
		return fmt.Errorf("SIOCBRADDIF: %w", err)
	}
	return bringUp(s, name)
}

func setMTU(s int, name string, mtu int) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint32(uint32(mtu))
	return unix.IoctlIfreq(s, unix.SIOCSIFMTU, ifr)
}

// hardwareAddress is a struct ifreq with ifr_hwaddr.
type hardwareAddress struct {
	name    [unix.IFNAMSIZ]byte
	family  uint16
	address [14]byte
	_       [8]byte
}

// setHighAddress makes the device's address begin with fe, which is higher than those of all other ports.
func setHighAddress(s int, device *net.Interface) error {
	ifr := hardwareAddress{family: unix.ARPHRD_ETHER}
	copy(ifr.name[:], device.Name)
	copy(ifr.address[:], device.HardwareAddr)
	ifr.address[0] = 0xfe
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFHWADDR, uintptr(unsafe.Pointer(&ifr)))
	if errno != 0 {
		return errno
	}
	return nil
}

func bringUp(s int, name string) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("SIOCGIFFLAGS: %w", err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("SIOCSIFFLAGS: %w", err)
	}
	return nil
}
