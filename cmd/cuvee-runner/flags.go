package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/cluster"
)

// version is set by the build.
var version = "dev"

// exitUsage is the exit code of a wrong command line; the others are those of package runner.
const exitUsage = 2

// options are what the command line and the environment say.
type options struct {
	config      string
	credentials string
	listen      string
	console     string
	consoleDir  string
	level       slog.Level
	version     bool
}

const help = `Run one virtual machine as its configuration says, and follow the configuration as it changes.

In a pod the VM's status and events are written to the API server. That takes the variables POD_NAME, POD_NAMESPACE and POD_UID.
Elsewhere the VM runs the same, and nobody is told.

SIGTERM asks the guest to power down and waits for it as long as powerdownTimeout says. A SIGINT after that ends the VM at once.
When the guest shuts itself down in a cluster, the VM is marked as stopped (guestShutdownStops) or the pod is deleted,
so that another one starts it again, and the runner waits for the end of its pod; elsewhere the runner ends, or
starts the VM again.

Exit codes:
  0  the guest shut down, by itself or when asked to
  1  the VM could not be prepared
  2  the command line is wrong
  3  QEMU refused to start: an option, a file, a disk in use
  4  the guest did not shut down in time, its end was forced, or the lease of its block volumes was lost
  5  QEMU ended by itself
  6  the guest's kernel panicked, and QEMU ended for that

Usage: cuvee-runner [flags]; each flag is also an environment variable.
`

// parse reads the command line. What it does not say the environment does, by the flag's name: CUVEE_LISTEN is --listen.
func parse(args []string, out io.Writer) (*options, error) {
	var o options
	flags := pflag.NewFlagSet("cuvee-runner", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { fmt.Fprint(out, help+"\n"+flags.FlagUsages()) }
	flags.StringVarP(&o.config, "config", "c", "/etc/opt/vmrunner/config.json", "the VM's configuration, which is followed")
	flags.StringVar(&o.credentials, "credentials", cluster.CredentialsDir, "the directory with the service account's token and ca.crt")
	flags.StringVar(&o.listen, "listen", ":9477", "where /healthz, /readyz and /metrics are served; another port is used if this one is taken; empty for nowhere")
	flags.StringVar(&o.console, "console-listen", "", "where the VM's consoles are served over HTTPS, such as :9478; another port is used if this one is taken; empty for nowhere")
	flags.StringVar(&o.consoleDir, "console-dir", "/etc/opt/vmrunner/console", "the directory with the consoles' token, tls.crt and tls.key, which are followed")
	flags.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.BoolVar(&o.version, "version", false, "print the version and the format of configurations")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "CUVEE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || f.Changed {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("invalid value %q of %s: %w", value, name, err))
		}
	})
	return &o, errors.Join(errs...)
}

func printVersion(out io.Writer) {
	fmt.Fprintf(out, "cuvee-runner %s\nconfig format %s\n", version, runner.Format)
}
