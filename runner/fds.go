package runner

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Names of file descriptors that the runner itself has a use for.
const (
	// FDMonitor is the QMP monitor.
	FDMonitor = "qmp"
	// FDSerial is the first serial port.
	FDSerial = "serial0"
)

// firstFD is the number that a child sees the first inherited file under.
const firstFD = 3

// inherited are the files that QEMU inherits, by name, and the runner's ends of those that are socket pairs.
type inherited struct {
	files   []*os.File
	numbers map[string]string
	ends    map[string]net.Conn
}

// inherit makes a socket pair for each name, but for those that there is a file for already.
func inherit(names []string, given map[string]*os.File) (*inherited, error) {
	in := &inherited{numbers: make(map[string]string), ends: make(map[string]net.Conn)}
	for _, name := range names {
		file := given[name]
		if file == nil {
			theirs, ours, err := socketPair(name)
			if err != nil {
				in.close()
				return nil, err
			}
			file, in.ends[name] = theirs, ours
		}
		in.numbers[name] = strconv.Itoa(firstFD + len(in.files))
		in.files = append(in.files, file)
	}
	return in, nil
}

// release closes the files that are QEMU's alone once it has them.
func (in *inherited) release() {
	for _, f := range in.files {
		f.Close()
	}
	in.files = nil
}

// close closes everything.
func (in *inherited) close() {
	in.release()
	for _, end := range in.ends {
		end.Close()
	}
}

// socketPair returns a connected pair of stream sockets: a file to inherit and a connection to keep.
func socketPair(name string) (*os.File, net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair for %s: %w", name, err)
	}
	theirs, ours := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("make socket pair for %s: %w", name, err)
	}
	return theirs, conn, nil
}
