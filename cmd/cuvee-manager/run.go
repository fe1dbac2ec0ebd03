package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// leaseName is the Lease that the managers of a cluster share.
const leaseName = "cuvee-manager"

// Main runs the manager until the context is done, and returns its exit code.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	var o options
	flags := pflag.NewFlagSet("cuvee-manager", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	o.bind(flags)
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil {
		err = o.check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "cuvee-manager:", err)
		return exitUsage
	}
	handler := slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: o.logLevel})
	logger := logr.FromSlogHandler(handler)
	ctrllog.SetLogger(logger)
	klog.SetLogger(logger)
	if err := o.run(ctx, logger); err != nil {
		logger.Error(err, "the manager ends")
		return exitFailed
	}
	return exitOK
}

func (o *options) run(ctx context.Context, logger logr.Logger) error {
	// Templates that cannot be loaded are better known before there is a cluster to reach.
	packages, err := o.packages()
	if err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	config.UserAgent = "cuvee-manager"
	mgr, err := manager.New(config, manager.Options{
		Logger:                        logger,
		Metrics:                       metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress:        o.health,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.ownNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	engine, err := controller.New(controller.Options{
		Config: mgr.GetConfig(), HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper(), Source: packages,
		Namespaces: o.namespaces, OwnNamespace: o.ownNamespace, Recorder: mgr.GetEventRecorder("cuvee-manager"),
		Workers: o.workers, Resync: o.resync, Log: logger,
	})
	if err != nil {
		return err
	}
	if err := metrics.Registry.Register(engine); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	defer metrics.Registry.Unregister(engine)
	if err := errors.Join(mgr.AddHealthzCheck("alive", healthz.Ping), mgr.AddReadyzCheck("ready", healthz.Ping)); err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	if err := mgr.Add(engine); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	return mgr.Start(ctx)
}

// packages are the templates to work with.
func (o *options) packages() (controller.Source, error) {
	var site fs.FS
	if o.templates != "" {
		site = os.DirFS(o.templates)
	}
	vm, err := controller.Load(cuvee.Files, site, o.templates, "vm")
	if err != nil {
		return nil, err
	}
	return controller.Fixed{vm}, nil
}

// config says how to reach the API server: as the flag says, as in a pod, or as kubectl does.
func (o *options) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if o.kubeconfig == "" && o.configContext == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.configContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return config, nil
}
