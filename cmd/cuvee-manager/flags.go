package main

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are what the command line says.
type options struct {
	kubeconfig    string
	templates     string
	namespaces    []string
	ownNamespace  string
	metrics       string
	health        string
	debug         string
	leaderElect   bool
	workers       int
	resync        time.Duration
	logLevel      slog.Level
	logLevelText  string
	configContext string
}

func (o *options) bind(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; in a pod it is not needed")
	f.StringVar(&o.configContext, "context", "", "context of the kubeconfig; its current one if empty")
	f.StringVar(&o.templates, "templates", "", "directory with a site's *.cue files, which are laid over the built-in templates")
	f.StringSliceVar(&o.namespaces, "namespace", nil, "namespace to work in, may be repeated; all if it is not given")
	f.StringVar(&o.ownNamespace, "own-namespace", os.Getenv("POD_NAMESPACE"), "namespace for what the manager keeps for itself: its lease, and which kinds it has made; that of its pod if it is not given, else default")
	f.StringVar(&o.metrics, "metrics-address", ":8080", "address to serve /metrics at; 0 for none")
	f.StringVar(&o.health, "health-address", ":8081", "address to serve /healthz and /readyz at; 0 for none")
	f.StringVar(&o.debug, "debug-address", "0", "address to serve the profiles of Go's pprof at, to whoever can reach it; 0 for none")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "let one of several managers work, and the others wait for it to end")
	f.IntVar(&o.workers, "workers", 4, "custom resources of a kind that are worked on at a time, from 1 to 64")
	f.DurationVar(&o.resync, "resync", time.Hour, "after how long each custom resource is looked at though nothing has happened; 0 for never")
	f.StringVar(&o.logLevelText, "log-level", "info", "debug, info, warn or error")
}

// check says what is wrong with the options.
func (o *options) check(given *pflag.FlagSet) error {
	if o.workers < 1 || o.workers > 64 {
		return fmt.Errorf("--workers is %d, want 1 to 64", o.workers)
	}
	if o.resync < 0 {
		return fmt.Errorf("--resync is %v, want 0 or more", o.resync)
	}
	if err := o.logLevel.UnmarshalText([]byte(o.logLevelText)); err != nil {
		return fmt.Errorf("--log-level is %q, want debug, info, warn or error", o.logLevelText)
	}
	if o.ownNamespace == "" {
		o.ownNamespace = "default"
	}
	// A variable of a shell that is empty must not give the manager all namespaces.
	if given.Changed("namespace") && len(o.namespaces) == 0 {
		o.namespaces = []string{""}
	}
	for _, n := range o.namespaces {
		if !isNamespace(n) {
			return fmt.Errorf("--namespace is %q, want the name of a namespace", n)
		}
	}
	if !isNamespace(o.ownNamespace) {
		return fmt.Errorf("--own-namespace is %q, want the name of a namespace", o.ownNamespace)
	}
	return nil
}

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
