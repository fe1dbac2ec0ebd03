package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// stopTimeout is how long a program may take to end before it is killed. What they leave half done is not used again.
const stopTimeout = 5 * time.Second

// processes are the programs that were started.
type processes struct {
	bin, dir string
	running  []*process
	// failed gets an error when a program ends by itself.
	failed chan error
}

type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func newProcesses(bin, dir string) *processes {
	return &processes{bin: bin, dir: dir, failed: make(chan error, 1)}
}

// start runs a program in the background, with its output in NAME.log.
func (p *processes) start(name string, args ...string) error {
	path := filepath.Join(p.dir, name+".log")
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// So that nothing is left even if this process is killed.
		Pdeathsig: syscall.SIGKILL,
		// So that a Ctrl-C in the terminal comes here only.
		Setpgid: true,
	}
	running := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(running.ended)
		// Pdeathsig is about the thread that started the program: it must not end before.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		select {
		case p.failed <- fmt.Errorf("%s has ended (%s): %s", name, cmd.ProcessState, tail(path)):
		default:
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s (is it there? see make kube): %w", name, err)
	}
	p.running = append(p.running, running)
	return nil
}

// tail returns the last lines of a file.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-3):], []byte("\n")))
}

// stop ends all programs, those first that need the others.
func (p *processes) stop() {
	for _, r := range slices.Backward(p.running) {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-r.ended:
		case <-time.After(stopTimeout):
			_ = r.cmd.Process.Kill()
			<-r.ended
		}
	}
}

// await repeats something until it works. It gives up when the context ends, or a program has failed.
func (p *processes) await(ctx context.Context, what string, try func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case err := <-p.failed:
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-tick.C:
		}
	}
}
