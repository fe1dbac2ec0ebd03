package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok is kwok's own main function, which cannot be imported.
func runKwok() error {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx := signals.SetupSignalContext()
	ctx, _ = log.InitFlags(ctx, flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	c := cmd.NewCommand(ctx)
	// The programs of Kubernetes have registered a flag --version of another type.
	c.Version = ""
	c.PersistentFlags().AddFlagSet(flags)
	return c.ExecuteContext(ctx)
}
