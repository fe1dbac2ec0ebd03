//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// booted is what the demo's guest says when it has done all that cloud-init told it.
const booted = "cuvee-demo: ready"

func (k kube) cuvee(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../bin/cuvee", append(args, "-n", k.namespace, "--kubeconfig", k.kubeconfig)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cuvee %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func cmdGuest(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: guest VM COMMAND")
	}
	k, _ := ts.Value(kube{}).(kube)
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	c, err := k.bootedConsole(ctx, args[0])
	ts.Check(err)
	defer c.close()
	out, code, err := c.run(ctx, args[1])
	fmt.Fprint(ts.Stdout(), out)
	if err != nil {
		ts.Fatalf("the guest does not answer: %v\n%s", err, c.seen.String())
	}
	if failed := code != 0; failed != neg {
		ts.Fatalf("the guest's command has the exit code %d", code)
	}
}

// bootedConsole is the console of a VM whose guest has booted since QEMU was started. What is typed before could make the boot loader wait.
func (k kube) bootedConsole(ctx context.Context, vm string) (*console, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c, err := k.openConsole(ctx, vm)
		if err != nil {
			return nil, err
		}
		if err = c.untilBooted(ctx); err == nil {
			return c, nil
		}
		c.close()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the guest of %s has not booted: %w\n%s", vm, err, c.seen.String())
		}
	}
}

// console is a VM's serial console, with a shell at its other end.
type console struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	// seen is all that was read, and what cuvee said about it.
	seen strings.Builder
	said bytes.Buffer
}

func (k kube) openConsole(ctx context.Context, vm string) (*console, error) {
	cmd := exec.CommandContext(ctx, "../../bin/cuvee", "console", vm, "--tail", "1048576", "-n", k.namespace, "--kubeconfig", k.kubeconfig)
	c := &console{cmd: cmd, lines: make(chan string)}
	cmd.Stderr = &c.said
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case c.lines <- strings.TrimRight(s.Text(), "\r"):
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, nil
}

// close ends the console. What the guest still writes nobody reads.
func (c *console) close() {
	_ = c.cmd.Process.Kill()
	for line := range c.lines {
		c.seen.WriteString(line + "\n")
	}
	_ = c.cmd.Wait()
	c.seen.WriteString(c.said.String())
}

// next is the next line of the console.
func (c *console) next(ctx context.Context) (string, error) {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "", errEnded
		}
		c.seen.WriteString(line + "\n")
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// errEnded says that the console has ended: there is no VM, or its pod is another one now.
var errEnded = errors.New("the console has ended")

func (c *console) untilBooted(ctx context.Context) error {
	for {
		line, err := c.next(ctx)
		if err != nil || strings.HasPrefix(line, booted) {
			return err
		}
	}
}

// answer ends what the shell was asked for. What is typed comes back, too, and must not match.
var answer = regexp.MustCompile(`^(.*)<<([0-9a-z]+) ([0-9]+)>>$`)

// run types a command, and returns what it printed, and its exit code.
func (c *console) run(ctx context.Context, line string) (string, int, error) {
	// The shell may not be there yet, and take none of it: ask until it answers.
	for {
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, _, err := c.ask(ask, ":")
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return "", 0, err
		}
	}
	return c.ask(ctx, line)
}

// ask types a command once, in one line: what is typed ahead would come back amid its output. What it prints comes between two marks that
// only it can have written.
func (c *console) ask(ctx context.Context, line string) (string, int, error) {
	// What was asked for before is still to be seen.
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	if _, err := fmt.Fprintf(c.in, "echo '<''<'%s begins; (%s); echo '<''<'%s $?'>''>'\n", id, line, id); err != nil {
		return "", 0, err
	}
	var out strings.Builder
	begun := false
	for {
		text, err := c.next(ctx)
		if err != nil {
			return out.String(), 0, err
		}
		m := answer.FindStringSubmatch(text)
		switch {
		case m != nil && m[2] == id:
			out.WriteString(m[1])
			code, err := strconv.Atoi(m[3])
			return out.String(), code, err
		case strings.HasSuffix(text, "<<"+id+" begins"):
			begun = true
		case begun:
			out.WriteString(text + "\n")
		}
	}
}
