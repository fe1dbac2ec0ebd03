package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// runnerProcess is a cuvee-runner whose guest runs.
type runnerProcess struct {
	cmd *exec.Cmd
	// qemu is the process id of its QEMU.
	qemu int
	took time.Duration
}

// writeConfig writes what a pod has mounted, and returns its path.
func (v *vm) writeConfig(dir string) (string, error) {
	data, err := json.Marshal(v.config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config.json")
	return path, write(path, data)
}

// startProcess measures from the start of the process until it says that the guest runs.
func startProcess(ctx context.Context, program, config string) (*runnerProcess, error) {
	cmd := exec.CommandContext(ctx, program, "--config", config, "--listen", "127.0.0.1:0", "--log-level", "debug")
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &runnerProcess{cmd: cmd}
	said, err := awaitBooting(log)
	p.took = time.Since(begin)
	if err != nil {
		p.end()
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	// A log that nobody reads would hold it up.
	go func() { _, _ = io.Copy(io.Discard, log) }()
	if p.qemu, err = childOf(cmd.Process.Pid, "qemu-system-x86"); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// firstProcess starts the program once, and waits until it has kept its choices, which it completes when the guest runs.
func (v *vm) firstProcess(ctx context.Context, program, config string) error {
	p, err := startProcess(ctx, program, config)
	if err != nil {
		return err
	}
	defer p.end()
	return v.awaitKept(ctx)
}

// awaitKept waits until a runner has kept its choices: a start that ends before is followed by one that has to ask QEMU for
// its machine types.
func (v *vm) awaitKept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		kept, err := os.ReadFile(filepath.Join(v.config.Boot.DataDir, "resolved.json"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if bytes.Contains(kept, []byte(`"qemu"`)) {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("the machine type is not kept: %w", err)
		}
	}
}

// awaitBooting reads the log up to the message that comes after cont, and returns what it has read.
func awaitBooting(log io.Reader) ([]byte, error) {
	var said bytes.Buffer
	lines := bufio.NewReader(io.TeeReader(log, &said))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return said.Bytes(), errors.New("the guest did not run")
		}
		if bytes.Contains(line, []byte(`"msg":"VM is Booting"`)) {
			return said.Bytes(), nil
		}
	}
}

// end kills the runner, and its QEMU with it, and waits until both are gone.
func (p *runnerProcess) end() {
	_ = p.cmd.Process.Kill()
	// It is killed, so its status tells nothing.
	_ = p.cmd.Wait()
	if p.qemu != 0 {
		awaitEnd(p.qemu)
	}
}

// childOf finds the process with this name and parent.
func childOf(parent int, name string) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		// A process may have ended meanwhile.
		text, _ := os.ReadFile(path)
		open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if open < 0 || end < open || string(text[open+1:end]) != name {
			continue
		}
		var state string
		var pid, ppid int
		if _, err := fmt.Sscan(string(text[end+1:]), &state, &ppid); err != nil || ppid != parent {
			continue
		}
		_, err := fmt.Sscan(string(text[:open]), &pid)
		return pid, err
	}
	return 0, fmt.Errorf("process %d has no child %s", parent, name)
}
