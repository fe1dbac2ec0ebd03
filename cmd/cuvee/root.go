package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/render"
)

// Exit codes; "run" has further ones, see its help.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// streams are the command's standard streams.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitError is an error with an exit code of its own. Without an error nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// Main runs the command with these arguments and returns its exit code.
func Main(args []string) int {
	s := streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	root := newRootCommand(s)
	plugin, args := asPlugin(os.Args[0], args)
	if plugin {
		makePlugin(root)
	}
	return execute(context.Background(), root, args, s)
}

func run(ctx context.Context, args []string, s streams) int {
	return execute(ctx, newRootCommand(s), args, s)
}

func execute(ctx context.Context, root *cobra.Command, args []string, s streams) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var coded exitError
	if errors.As(err, &coded) {
		if coded.err != nil {
			fmt.Fprintln(s.err, message(coded.err))
		}
		return coded.code
	}
	fmt.Fprintln(s.err, message(err))
	return exitFailed
}

// message is the error as it is printed: faults are lines that say where they are, anything else gets our name.
func message(err error) string {
	var faults render.Faults
	if errors.As(err, &faults) {
		return faults.Error()
	}
	return "cuvee: " + err.Error()
}

func newRootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "cuvee",
		Short: "Virtual machines as Kubernetes manifests, and as QEMU processes",
		Long: `cuvee turns VirtualMachine custom resources into what they become: Kubernetes manifests, and the command line
of QEMU. The rules are CUE templates that a site can change. It also runs a VM on this machine, without Kubernetes, and
shows and controls those of a cluster.

Exit codes: 0 all is well; 1 an input is refused, or the work failed; 2 the command line is wrong.
"cuvee run" has more, see "cuvee run --help".`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(cmd, fmt.Errorf("unknown command %q", args[0]))
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		// Without a command the help is what is wanted; a wrong one is an error.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	root.AddCommand(newRenderCommand(), newVetCommand(), newRunCommand(), newConsoleCommand(), newScreenshotCommand(), newViewerCommand(), newVNCCommand(),
		newGetCommand(), newExplainCommand(), newStartCommand(), newStopCommand(), newRestartCommand(), newResetCommand(),
		newImageCommand(), newPlanCommand(), newDiffCommand(), newObserveCommand(), newCRDCommand(), newVersionCommand())
	return root
}

// usage marks an error as one of the command line.
func usage(cmd *cobra.Command, err error) error {
	return exitError{code: exitUsage, err: fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath())}
}

// noArgs refuses positional arguments, which no command takes but those that say so.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, fmt.Errorf("unexpected argument %q", args[0]))
	}
	return nil
}
