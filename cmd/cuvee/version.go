package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/runner"
)

// version is set by the build.
var version = "dev"

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, that of CUE, and the format of runner configs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cue := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, m := range info.Deps {
					if m.Path == "cuelang.org/go" {
						cue = m.Version
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "cuvee %s\nCUE %s\nconfig format %s\n%s %s/%s\n", version, cue, runner.Format, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
