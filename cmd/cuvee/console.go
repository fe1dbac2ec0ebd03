package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

type consoleFlags struct {
	vmFlags
	readOnly bool
	log      bool
	wait     bool
	tail     int64
	detach   string
}

func newConsoleCommand() *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console VM",
		Short: "Use the serial console of a running VM",
		Long: `Connect the terminal to the first serial port of a running VM. Every key goes to the guest, Ctrl-C too; only the detach key
ends the command. The VM does not notice.

One console types at a time: the newest. The others go on showing the output, and are told; Enter takes over again. When the
VM ends, the command waits until it is started again. With --wait it also waits for a VM that does not run yet.

Without a terminal, input and output are passed on as they are, no key has a meaning, and the command ends with the VM.

Exit codes: 0 detached, or the VM has ended; 1 no such VM runs, or the connection is refused; 2 the command line is wrong.`,
		Example: `  cuvee console hello
  cuvee console hello --wait
  cuvee console hello --log >boot.txt
  cuvee console hello --read-only | grep login:`,
		Args: oneVM,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "only show the output; nothing is taken over")
	cmd.Flags().BoolVar(&f.log, "log", false, "print what is kept of the output (the last MiB, or --tail), and end")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for a VM that does not run yet, and say why it does not")
	cmd.Flags().Int64Var(&f.tail, "tail", -1, "begin with so many `BYTES` of what was written before")
	cmd.Flags().StringVar(&f.detach, "detach-key", "ctrl-]", "what ends the command on a terminal: ctrl- and a letter or one of ]\\^_, or none")
	return cmd
}

func (f *consoleFlags) run(cmd *cobra.Command, name string) error {
	key, err := parseKey(f.detach)
	if err != nil {
		return usage(cmd, fmt.Errorf("--detach-key: %w", err))
	}
	if f.log && f.readOnly {
		return usage(cmd, errors.New("--log and --read-only exclude each other"))
	}
	if f.log && f.wait {
		return usage(cmd, errors.New("--log and --wait exclude each other"))
	}
	where, err := f.place(cmd, name)
	if err != nil {
		return err
	}
	if f.log {
		e, err := where.console(cmd.Context())
		if err != nil {
			return err
		}
		return e.Log(cmd.Context(), cmd.OutOrStdout(), f.tail)
	}
	a := &attachment{
		place: where, readOnly: f.readOnly, wait: f.wait, tail: f.tail, detach: key,
		out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
	}
	return a.onTerminal(cmd.Context(), cmd.InOrStdin())
}

// noKey is a key that is never pressed.
const noKey = -1

// parseKey reads the name of a key: ctrl- and one of the characters that have a control character.
func parseKey(name string) (int, error) {
	if name == "none" {
		return noKey, nil
	}
	char, ok := strings.CutPrefix(strings.ToLower(name), "ctrl-")
	if !ok || len(char) != 1 || !strings.Contains(`abcdefghijklmnopqrstuvwxyz]\^_`, char) {
		return 0, fmt.Errorf(`%q is not valid, want ctrl- and a letter or one of ]\^_, or none`, name)
	}
	return int(strings.ToUpper(char)[0] & 0x1f), nil
}

// onTerminal attaches the terminal, if there is one, and leaves it as it was, whatever happens.
func (a *attachment) onTerminal(ctx context.Context, in io.Reader) error {
	restore := func() {}
	if f, ok := in.(*os.File); ok && isTerminal(f) {
		a.interactive = true
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		a.setUp = func() { restore = raw(f) }
	}
	defer func() { restore() }()
	a.keys = newKeyboard(in).typed
	return a.run(ctx)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
