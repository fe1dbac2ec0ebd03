package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

type screenshotFlags struct {
	vmFlags
	out string
}

func newScreenshotCommand() *cobra.Command {
	var f screenshotFlags
	cmd := &cobra.Command{
		Use:   "screenshot VM",
		Short: "Take a picture of a running VM's screen",
		Long: `Take a picture, a PNG, of what a running VM shows on its first screen. It is written to the file of -o, readable for its user only, or to
standard output, if that is no terminal.`,
		Example: `  cuvee screenshot hello -o hello.png
  cuvee screenshot hello | display -`,
		Args: oneVM,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.bind(cmd)
	cmd.Flags().StringVarP(&f.out, "output", "o", "-", "the `FILE` to write, - for standard output")
	return cmd
}

// pngMagic begins every PNG (ISO/IEC 15948, 5.2).
const pngMagic = "\x89PNG\r\n\x1a\n"

func (f *screenshotFlags) run(cmd *cobra.Command, name string) error {
	if out, ok := cmd.OutOrStdout().(*os.File); ok && f.out == "-" && isTerminal(out) {
		return usage(cmd, errors.New("a picture is nothing for a terminal; name a file with -o"))
	}
	where, err := f.place(cmd, name)
	if err != nil {
		return err
	}
	e, err := where.console(cmd.Context())
	if err != nil {
		return err
	}
	picture, err := e.Screenshot(cmd.Context())
	if err != nil {
		return fmt.Errorf("take a screenshot of %s: %w", name, err)
	}
	if !bytes.HasPrefix(picture, []byte(pngMagic)) {
		return fmt.Errorf("take a screenshot of %s: the answer is no PNG", name)
	}
	return writeOutput(cmd.OutOrStdout(), f.out, picture)
}

// writeOutput writes what may be a secret to a file that only its user may read, or to standard output.
func writeOutput(stdout io.Writer, name string, data []byte) error {
	if name == "-" {
		_, err := stdout.Write(data)
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	// A file that was there keeps its mode.
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
