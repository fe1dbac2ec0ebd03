package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// qemuImg reads a qcow2 image that has been checked, with QEMU's own program. It gets files by their descriptors, so that no name
// is a part of its command line, and each format by name, so that it guesses nothing.
type qemuImg struct {
	image *os.File
	// size is the size of the disk in the image.
	size  int64
	meter *meter
}

// conversion is what of an image goes where.
type conversion struct {
	// driver is QEMU's for what is written to: file or host_device.
	driver string
	// skip is where in the image, and in what is written to, to begin; length is how much to write.
	skip, length int64
	// zeroed says that there are only zeros in what is written to.
	zeroed bool
}

// The limits of the program: of what an image is, it should need a fraction.
const (
	maxMemory = 2 << 30
	// cpuSeconds is what it may use of a CPU, and cpuSecondsPerGiB what is added for each GiB of the disk.
	cpuSeconds       = 300
	cpuSecondsPerGiB = 60
)

// head returns the first bytes of the disk in the image, up to n.
func (q *qemuImg) head(ctx context.Context, n int64) ([]byte, error) {
	fd, err := unix.MemfdCreate("head", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("convert image: %w", err)
	}
	f := os.NewFile(uintptr(fd), "head")
	defer f.Close()
	n = min(n, wholeSectors(q.size))
	if err := f.Truncate(n); err != nil {
		return nil, fmt.Errorf("convert image: %w", err)
	}
	silent := &qemuImg{image: q.image, size: q.size, meter: newMeter(nil)}
	if err := silent.convert(ctx, f, conversion{driver: "file", length: n, zeroed: true}); err != nil {
		return nil, err
	}
	head := make([]byte, n)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("convert image: %w", err)
	}
	return head, nil
}

// convert writes a part of the image to a file or device, without waiting for the storage.
func (q *qemuImg) convert(ctx context.Context, to *os.File, c conversion) error {
	args := []string{"convert", "-n", "-p", "--image-opts", "--target-image-opts"}
	if c.zeroed {
		args = append(args, "--target-is-zero")
	}
	// The first of ExtraFiles is descriptor 3.
	args = append(args,
		fmt.Sprintf("driver=raw,offset=%d,size=%d,file.driver=qcow2,file.file.driver=file,file.file.filename=/proc/self/fd/3", c.skip, c.length),
		fmt.Sprintf("driver=raw,offset=%d,size=%d,file.driver=%s,file.filename=/proc/self/fd/4", c.skip, c.length, c.driver))
	cmd := exec.CommandContext(ctx, "qemu-img", args...)
	cmd.Dir, cmd.Env = "/", []string{"LC_ALL=C"}
	cmd.ExtraFiles = []*os.File{q.image, to}
	cmd.Stdout = &percentages{meter: q.meter, from: c.skip, of: c.length}
	said := &firstBytes{}
	cmd.Stderr = said
	cmd.WaitDelay = 5 * time.Second
	// A converter must not write on when nobody has the disk's lock any more.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err := q.run(cmd)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return q.explain(err, said.String())
	}
	return nil
}

// run runs the program within its limits.
func (q *qemuImg) run(cmd *exec.Cmd) error {
	// The kernel takes the end of the thread that started the child for the end of the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	cpu := uint64(cpuSeconds + cpuSecondsPerGiB*(q.size>>30))
	for what, limit := range map[int]uint64{unix.RLIMIT_AS: maxMemory, unix.RLIMIT_CPU: cpu, unix.RLIMIT_CORE: 0} {
		// If it has ended by now, there is nothing to limit.
		_ = unix.Prlimit(cmd.Process.Pid, what, &unix.Rlimit{Cur: limit, Max: limit}, nil)
	}
	return cmd.Wait()
}

// explain makes an error of what the program said.
func (q *qemuImg) explain(err error, said string) error {
	var status syscall.WaitStatus
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status, _ = exit.Sys().(syscall.WaitStatus)
	}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errorf(Failed, "convert image: qemu-img is not installed")
	case strings.Contains(said, unix.ENOSPC.Error()) || strings.Contains(said, "No space left on device"):
		return errorf(NoSpace, "convert image: no space left on the volume")
	case strings.Contains(said, "error while reading"):
		return errorf(Corrupt, "convert image: qemu-img: %s", said)
	case status.Signaled() && status.Signal() == syscall.SIGXCPU:
		return errorf(Corrupt, "convert image: it takes much longer than an image of this size should")
	case said == "":
		return errorf(Failed, "convert image: qemu-img: %w", err)
	}
	return errorf(Failed, "convert image: qemu-img: %s", said)
}

// firstBytes keeps the begin of what is written to it, as one line.
type firstBytes struct{ buf bytes.Buffer }

func (f *firstBytes) Write(p []byte) (int, error) {
	f.buf.Write(p[:min(len(p), max(0, 1024-f.buf.Len()))])
	return len(p), nil
}

func (f *firstBytes) String() string {
	lines := strings.FieldsFunc(f.buf.String(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(lines[i]), "qemu-img: ")
	}
	return strings.Join(lines, "; ")
}

// percentages reads what qemu-img says of its progress: "    (12.34/100%)\r".
type percentages struct {
	meter    *meter
	from, of int64
	line     []byte
}

var _ io.Writer = (*percentages)(nil)

func (w *percentages) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != '\r' && c != '\n' {
			w.line = append(w.line, c)
			continue
		}
		text, _, _ := strings.Cut(strings.TrimLeft(string(w.line), " ("), "/")
		if percent, err := strconv.ParseFloat(text, 64); err == nil {
			w.meter.set(w.from + int64(percent/100*float64(w.of)))
		}
		w.line = w.line[:0]
	}
	return len(p), nil
}
