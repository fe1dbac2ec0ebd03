package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// process is a child process of the runner.
type process struct {
	name string
	cmd  *exec.Cmd
	tail *tail
	// exited is closed when the process is gone; err is valid from then on.
	exited chan struct{}
	err    error
}

// pipeDelay is how long after its end a process may be kept from being noticed by one of its own children that
// still holds its output.
const pipeDelay = 2 * time.Second

// startProcess starts a program with files as its descriptors from 3 on. The files stay the caller's.
func startProcess(l *launcher, user *User, program string, argv []string, files []*os.File) (*process, error) {
	p := &process{name: program, tail: &tail{}, exited: make(chan struct{})}
	p.cmd = exec.Command(program, argv...)
	p.cmd.ExtraFiles = files
	p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
	p.cmd.WaitDelay = pipeDelay
	if err := l.start(p.cmd, user); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

const (
	// stopDelay is how long a process may take to end after SIGKILL. One that waits for a disk that does not answer takes longer.
	stopDelay = 10 * time.Second
	// unkilledDelay is how long one may take that cannot be killed: it may be about to end by itself.
	unkilledDelay = 2 * time.Second
)

// stop kills the process and waits until it is gone, as long as that makes sense.
func (p *process) stop() error {
	// A runner that is root without CAP_KILL must not signal a QEMU of another user, nor does the kernel when the runner
	// ends. What is left ends with the container.
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	delay := stopDelay
	if err != nil {
		delay = unkilledDelay
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(delay):
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	return fmt.Errorf("kill %s: it has not ended %v after SIGKILL", p.name, delay)
}

// wait waits until the process is gone, and reports whether it is before the context ends.
func (p *process) wait(ctx context.Context) bool {
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
		return false
	}
}

// failure describes the end of a process that should not have ended: what it said last tells more than its status.
func (p *process) failure() error {
	status := p.cmd.ProcessState.String()
	if said := p.tail.String(); said != "" {
		return fmt.Errorf("%s (%s)", said, status)
	}
	return errors.New(status)
}
