package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// startBare measures from the start of the QEMU process until it has taken the command cont, and ends it.
func (v *vm) startBare(ctx context.Context) (time.Duration, error) {
	// The runner has taken its own along.
	if err := write(v.config.Boot.NoCloud.Image, v.image); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	var said bytes.Buffer
	ours, cmd, err := v.startQEMU(ctx, &said)
	if err != nil {
		return 0, err
	}
	defer closeAll(ours)
	err = letRun(ours[v.monitor()])
	took := time.Since(begin)
	cancel()
	// It is killed, so its status tells nothing.
	_ = cmd.Wait()
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, said.String())
	}
	return took, nil
}

// startQEMU starts QEMU with the runner's arguments; it waits for its monitor to let the guest run. The sockets are the
// other ends of those that it has.
func (v *vm) startQEMU(ctx context.Context, said io.Writer) (ours []*os.File, cmd *exec.Cmd, err error) {
	ours, theirs, err := v.sockets()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, v.program, v.argv...)
	cmd.ExtraFiles = theirs
	cmd.Stderr = said
	err = cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, nil, err
	}
	return ours, cmd, nil
}

// letRun does the least that has to be done over QMP (https://www.qemu.org/docs/master/interop/qmp-spec.html): read the
// greeting, leave the negotiation, and continue the stopped guest.
func letRun(monitor *os.File) error {
	conn, err := net.FileConn(monitor)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	if _, err := r.ReadBytes('\n'); err != nil {
		return fmt.Errorf("read greeting: %w", err)
	}
	for _, command := range []string{"qmp_capabilities", "cont"} {
		if _, err := fmt.Fprintf(conn, "{\"execute\":%q}\n", command); err != nil {
			return err
		}
		if err := awaitReturn(r); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

// awaitReturn reads over events to the answer of a command.
func awaitReturn(r *bufio.Reader) error {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return err
		}
		var answer struct {
			Return *json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return err
		}
		switch {
		case answer.Error != nil:
			return errors.New(answer.Error.Desc)
		case answer.Return != nil:
			return nil
		}
	}
}

// firstFD is the number that a child sees the first inherited file under.
const firstFD = 3

var fdKey = regexp.MustCompile(`\bfd=([0-9]+)`)

// numbers are the file descriptors that the arguments refer to.
func (v *vm) numbers() []int {
	var numbers []int
	for _, arg := range v.argv {
		for _, m := range fdKey.FindAllStringSubmatch(arg, -1) {
			// The pattern takes digits only.
			n, _ := strconv.Atoi(m[1])
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// monitor is the index of the monitor's socket.
func (v *vm) monitor() int {
	i := slices.IndexFunc(v.argv, func(arg string) bool {
		return fdKey.MatchString(arg) && regexp.MustCompile(`\bid=monitor\b`).MatchString(arg)
	})
	n, _ := strconv.Atoi(fdKey.FindStringSubmatch(v.argv[i])[1])
	return n - firstFD
}

// sockets makes a socket pair for each descriptor that the arguments refer to.
func (v *vm) sockets() (ours, theirs []*os.File, err error) {
	for range slices.Max(v.numbers()) - firstFD + 1 {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			closeAll(append(ours, theirs...))
			return nil, nil, err
		}
		ours = append(ours, os.NewFile(uintptr(pair[0]), "ours"))
		theirs = append(theirs, os.NewFile(uintptr(pair[1]), "theirs"))
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
