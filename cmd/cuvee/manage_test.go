package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/managerconfig"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

// configOf is a file with a manager's configuration.
type configOf string

func (c configOf) Name() string { return filepath.Base(string(c)) }

func (c configOf) Read() (string, error) {
	text, err := managerconfig.ReadFile(string(c))
	if err != nil {
		return "", err
	}
	config, err := managerconfig.Parse(c.Name(), text)
	return config.Settings, err
}

// cmdManage lets an engine work until nothing is left to do, which is so when cuvee plan says it. It keeps a site's files,
// and its configuration, as a manager does.
func cmdManage(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) > 2 {
		ts.Fatalf("usage: manage [SITE [CONFIG]]")
	}
	ns := ts.Getenv("NS")
	config := rest.CopyConfig(apiServer.Config)
	config.UserAgent = "manager-" + ns
	hc, err := rest.HTTPClientFor(config)
	ts.Check(err)
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	ts.Check(err)
	core, err := corev1client.NewForConfigAndClient(config, hc)
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	o := templateset.Options{BuiltIn: cuvee.Files, Interval: 10 * time.Millisecond, Settle: 20 * time.Millisecond, Keeper: controller.TemplateKeeper{ConfigMaps: core.ConfigMaps(ns)}}
	if len(args) > 0 {
		o.Directory = ts.MkAbs(args[0])
	}
	if len(args) > 1 {
		o.Settings = configOf(ts.MkAbs(args[1]))
	}
	store, err := templateset.New(ctx, o)
	ts.Check(err)
	e, err := controller.New(controller.Options{
		Config: config, HTTPClient: hc, Mapper: mapper, Source: store, Namespaces: []string{ns}, OwnNamespace: ns, Log: logr.Discard(),
	})
	ts.Check(err)
	ended := make(chan error, 2)
	go func() { ended <- store.Start(ctx) }()
	go func() { ended <- e.Start(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			ts.Check(<-ended)
		}
	}()
	last := ""
	for end := time.Now().Add(clusterPatience); ; {
		done := ts.Exec("cuvee", "plan") == nil
		left := ts.ReadFile("stdout")
		// The status comes last.
		ts.Check(ts.Exec("kubectl", "get", "vms", "-o", "jsonpath={range .items[*]}{.status.conditions}{end}"))
		status := ts.ReadFile("stdout")
		if done && status == last && status != "" {
			return
		}
		last = status
		if time.Now().After(end) {
			ts.Fatalf("the engine does not come to an end: %s", left)
		}
		<-time.After(500 * time.Millisecond)
	}
}
