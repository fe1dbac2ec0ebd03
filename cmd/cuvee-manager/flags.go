package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are what the command line and the environment say.
type options struct {
	kubeconfig     string
	kubeContext    string
	config         string
	templates      string
	namespace      string
	watched        []string
	interval       time.Duration
	concurrent     int
	metrics        string
	metricsCertDir string
	health         string
	debug          string
	leaderElection bool
	logLevel       slog.Level
	logLevelGiven  bool
	version        bool
}

const help = `Make and keep in a cluster what the templates render of its custom resources.

It works in its own namespace; with --watch-namespaces, in those that it names instead. SIGTERM ends it: what is being worked on is given
up, the lease is let go, and another manager takes over at once.

Exit codes:
  0  it was asked to end
  1  it could not start, or has lost its lease; the last line of the log says why
  2  the command line, or a variable of the environment, is wrong

Usage: cuvee-manager [flags]; each flag is also an environment variable: METRICS_BIND_ADDRESS is --metrics-bind-address. The flag
goes first.

`

// setting is a flag, and the variable of the same name.
type setting struct {
	name, shorthand string
	// fallback is its value if nobody gives one.
	fallback string
	// usage says what it is; the word in backquotes stands for its value.
	usage string
	// set takes a value over. Its error says what is wanted instead.
	set func(string) error
}

// settings are all flags, in the order of their names. Each puts its value into the options.
func (o *options) settings() []setting {
	return []setting{
		{"config", "c", "", "`file` with the configuration, in the form of VM-Operator's config.yaml; logging.properties is read beside it", text(&o.config)},
		{"debug-address", "", "0", "`address` to serve the profiles of Go's pprof at, to whoever can reach it; 0 for none", address(&o.debug)},
		{"health-probe-bind-address", "", ":8081", "`address` to serve /healthz and /readyz at; 0 for none", address(&o.health)},
		{"kube-context", "", "", "`context` of the kubeconfig; its current one if empty", text(&o.kubeContext)},
		{"kubeconfig", "", "", "`file` that says how to reach the API server; in a pod it is not needed", text(&o.kubeconfig)},
		{"leader-election", "", "true", "let one of several managers of a namespace work, and the others wait for it to end", boolean(&o.leaderElection)},
		{"log-level", "", "info", "`level` of the least lines to log: debug, info, warn or error", level(&o.logLevel)},
		{"max-concurrent-reconciles", "", "5", "`number` of custom resources of a kind that are worked on at a time, from 1 to 64", number(&o.concurrent, 1, 64)},
		{"metrics-bind-address", "", ":8080", "`address` to serve /metrics and /templates at; 0 for none", address(&o.metrics)},
		{"metrics-cert-dir", "", "", "`directory` with tls.crt and tls.key, which are followed; with it /metrics and /templates are served by HTTPS", text(&o.metricsCertDir)},
		{"namespace", "", "", "the manager's own `namespace`, where it keeps its lease and its ConfigMaps; in a pod, that of the pod", namespace(&o.namespace)},
		{"reconcile-interval", "", "30s", "`time` in which each custom resource is looked at once though nothing has happened; 0 for never", duration(&o.interval)},
		{"templates", "", "", "`directory` with a site's *.cue files, which are laid over the built-in templates", text(&o.templates)},
		{"watch-namespaces", "", "", "`namespaces` to work in instead of the manager's own, with commas or the flag repeated; * for all", namespaces(&o.watched)},
	}
}

// variable is the name of a flag in the environment.
func variable(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

// parse reads the command line, and where it says nothing, the environment. out is for the help that somebody asks for.
func parse(args []string, environment func(string) string, out io.Writer) (*options, error) {
	var o options
	flags := pflag.NewFlagSet("cuvee-manager", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.Usage = func() { fmt.Fprint(out, help+flags.FlagUsages()) }
	settings := o.settings()
	for _, s := range settings {
		if err := s.bind(flags); err != nil {
			return nil, err
		}
	}
	flags.BoolVar(&o.version, "version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return nil, wording(err)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.logLevelGiven = flags.Changed("log-level") || environment(variable("log-level")) != ""
	var errs []error
	for _, s := range settings {
		// KUBECONFIG is read with what else kubectl would read, see restConfig.
		if s.name == "kubeconfig" {
			continue
		}
		// A variable that is empty says nothing, as one that is not there.
		if text := environment(variable(s.name)); text != "" && !flags.Changed(s.name) {
			if err := s.set(text); err != nil {
				errs = append(errs, fmt.Errorf("%s is %q, want %w", variable(s.name), text, err))
			}
		}
	}
	return &o, errors.Join(errs...)
}

// bind makes the setting a flag, and gives it its default.
func (s setting) bind(flags *pflag.FlagSet) error {
	if s.fallback != "" {
		if err := s.set(s.fallback); err != nil {
			return fmt.Errorf("the default of --%s: %w", s.name, err)
		}
	}
	f := flags.VarPF(&value{s, s.fallback}, s.name, s.shorthand, s.usage)
	if s.fallback == "true" || s.fallback == "false" {
		f.NoOptDefVal = "true"
	}
	return nil
}

// value is a setting as pflag has its values.
type value struct {
	setting
	text string
}

// Set takes over what is given on the command line.
func (v *value) Set(text string) error {
	v.text = text
	return v.set(text)
}

func (v *value) String() string { return v.text }

// Type is what help calls the value if the usage does not name it.
func (v *value) Type() string {
	if v.fallback == "true" || v.fallback == "false" {
		return "bool"
	}
	return "string"
}

// wording says of a bad value what is wanted, as parse does of those in the environment.
func wording(err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s is %q, want %w", bad.GetFlag().Name, bad.GetValue(), errors.Unwrap(bad))
	}
	return err
}

func text(to *string) func(string) error {
	return func(text string) error {
		*to = text
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.ParseBool(text); err != nil {
			return errors.New("true or false")
		}
		return nil
	}
}

func number(to *int, least, most int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%d to %d", least, most)
		}
		*to = n
		return nil
	}
}

func duration(to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errors.New("a time such as 30s or 1h, or 0")
		}
		*to = d
		return nil
	}
}

func level(to *slog.Level) func(string) error {
	return func(text string) error {
		if !slices.Contains([]string{"debug", "info", "warn", "error"}, text) {
			return errors.New("debug, info, warn or error")
		}
		return to.UnmarshalText([]byte(text))
	}
}

func address(to *string) func(string) error {
	return func(text string) error {
		if text != "0" {
			_, port, err := net.SplitHostPort(text)
			if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
				return errors.New("an address such as :8080 or 127.0.0.1:8080, or 0")
			}
		}
		*to = text
		return nil
	}
}

func namespace(to *string) func(string) error {
	return func(text string) error {
		if !isNamespace(text) {
			return errors.New("the name of a namespace")
		}
		*to = text
		return nil
	}
}

// everyNamespace stands for the whole cluster.
const everyNamespace = "*"

func namespaces(to *[]string) func(string) error {
	return func(text string) error {
		for name := range strings.SplitSeq(text, ",") {
			// A variable of a shell that is empty must not give the manager another namespace than is meant.
			if name = strings.TrimSpace(name); name != everyNamespace && !isNamespace(name) {
				return errors.New("names of namespaces, or *")
			}
			*to = append(*to, name)
		}
		if slices.Contains(*to, everyNamespace) && len(*to) > 1 {
			return errors.New("either names of namespaces or *")
		}
		return nil
	}
}

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// podNamespace is the file in a pod that has the name of its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// place finds the manager's own namespace where neither the command line nor the environment gives it.
func (o *options) place(podFile string) error {
	if o.namespace != "" {
		return nil
	}
	var problem error
	if o.config != "" {
		config, err := readConfig(o.config)
		if config != nil && config.Namespace != "" {
			o.namespace = config.Namespace
			return nil
		}
		problem = err
	}
	data, err := os.ReadFile(podFile)
	if err != nil {
		const where = "the manager's namespace is not known, and this is no pod: give it by --namespace, by NAMESPACE, or below /Manager/Controller in the file of --config"
		return errors.Join(problem, errors.New(where))
	}
	if o.namespace = strings.TrimSpace(string(data)); !isNamespace(o.namespace) {
		return fmt.Errorf("%s has %q, want the name of a namespace", podFile, o.namespace)
	}
	return nil
}

// managed are the namespaces to work in; none means all.
func (o *options) managed() []string {
	switch {
	case len(o.watched) == 0:
		return []string{o.namespace}
	case o.watched[0] == everyNamespace:
		return nil
	}
	return o.watched
}
