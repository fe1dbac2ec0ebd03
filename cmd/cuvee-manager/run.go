package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// leaseName is the Lease, in the manager's namespace, that its managers share.
const leaseName = "cuvee-manager"

// Main runs the manager until the context is done, and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, os.Getenv, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err == nil && o.version {
		printVersion(stdout)
		return exitOK
	}
	if err == nil {
		err = o.place(podNamespace)
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(stderr, "cuvee-manager:", strings.TrimSpace(line))
		}
		return exitUsage
	}
	level := &slog.LevelVar{}
	level.Set(o.logLevel)
	logger := logr.FromSlogHandler(newLog(stderr, level))
	ctrllog.SetLogger(logger)
	klog.SetLogger(logger)
	if o.debug == "0" {
		// Nobody can ask for a profile of the memory; what it is made from takes some megabytes.
		runtime.MemProfileRate = 0
	}
	if err := o.run(ctx, logger, level); err != nil {
		logger.Error(err, "the manager ends")
		return exitFailed
	}
	return exitOK
}

func (o *options) run(ctx context.Context, logger logr.Logger, level *slog.LevelVar) error {
	certificate, err := o.metricsTLS()
	if err != nil {
		return err
	}
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	config.UserAgent = "cuvee-manager"
	// The API server knows better how much it takes. Each Event that would wait for its turn here has a goroutine: with many VMs made at a
	// time these would take more memory than the VMs.
	config.QPS = -1
	mgr, err := manager.New(config, manager.Options{
		Logger:                        logger,
		Metrics:                       certificate,
		HealthProbeBindAddress:        o.health,
		PprofBindAddress:              o.debug,
		LeaderElection:                o.leaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	var engine *controller.Engine
	store, err := o.templateStore(ctx, mgr, slog.New(logr.ToSlogHandler(logger)), func(ctx context.Context, c templateset.Candidate) error {
		return engine.Check(ctx, c)
	})
	if err != nil {
		return err
	}
	once, end, err := onceRecorder(ctx, mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	defer end()
	engine, err = controller.New(controller.Options{
		Config: mgr.GetConfig(), HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper(), Source: store,
		Namespaces: o.managed(), OwnNamespace: o.namespace, Recorder: mgr.GetEventRecorder(reporter), OnceRecorder: once,
		Workers: o.concurrent, Resync: o.interval, Log: logger,
	})
	if err != nil {
		return err
	}
	unregister, err := register(append(processMetrics(mgr.Elected()), engine, store)...)
	if err != nil {
		return err
	}
	defer unregister()
	if err := errors.Join(mgr.AddHealthzCheck("alive", healthz.Ping), mgr.AddReadyzCheck("ready", o.readiness(mgr.Elected(), engine))); err != nil {
		return fmt.Errorf("serve health: %w", err)
	}
	if err := errors.Join(mgr.Add(store), mgr.Add(engine), mgr.Add(memoryKeeper{engine})); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	// Who gives a level on the command line, or in the environment, wants that.
	if o.config != "" && !o.logLevelGiven {
		follow := &levelFile{path: besideConfig(o.config, levelFileName), level: level, fallback: o.logLevel, log: slog.New(logr.ToSlogHandler(logger))}
		if err := mgr.Add(follow); err != nil {
			return fmt.Errorf("follow the level of the log: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// readiness says that all is known of the cluster that the engine needs. A manager that waits for another one to end is as
// ready as it can be.
func (o *options) readiness(elected <-chan struct{}, engine *controller.Engine) healthz.Checker {
	return func(*http.Request) error {
		select {
		case <-elected:
			return engine.Ready()
		default:
		}
		if !o.leaderElection {
			return errors.New("the manager has not started")
		}
		return nil
	}
}

// restConfig says how to reach the API server: as the flag says, as in a pod, or as kubectl does. KUBECONFIG is read as kubectl reads
// it, so it may name several files.
func (o *options) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if o.kubeconfig == "" && o.kubeContext == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.kubeContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return config, nil
}
