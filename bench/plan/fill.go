package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/plan"
)

const (
	// namespace is that of the VMs.
	namespace = "planned"
	// patience is how long something may take that has no figure, beside what it takes for each VM.
	patience, patienceEach = 3 * time.Minute, 500 * time.Millisecond
)

var machines = schema.GroupVersionKind{Group: "vmoperator.jdrupes.org", Version: "v1", Kind: "VirtualMachine"}

// fill makes the VMs, and lets an engine make all their objects. It has ended when the plans are made.
func fill(ctx context.Context, o options, config *rest.Config) error {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(o.vms)*patienceEach)
	defer cancel()
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(o.root, "kustomize/crd/vmoperator.jdrupes.org_vms.yaml")}, ErrorIfPathMissing: true, MaxTime: patience,
	})
	if err != nil {
		return fmt.Errorf("install the CustomResourceDefinition: %w", err)
	}
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	if err != nil {
		return err
	}
	api, err := apiserver.New(config, hc, apiserver.NewMapper(config, hc, mapper))
	if err != nil {
		return err
	}
	ns := apiserver.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: namespace}
	if _, err := api.Create(ctx, ns, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace), "bench", false); err != nil {
		return err
	}
	pkg, err := controller.Load(cuvee.Files, nil, "", "vm")
	if err != nil {
		return err
	}
	engineOptions := controller.Options{
		Config: config, HTTPClient: hc, Mapper: mapper, Source: controller.Fixed{pkg}, Namespaces: []string{namespace}, OwnNamespace: namespace,
		Workers: 8, Log: logr.Discard(),
	}
	engine, err := controller.New(engineOptions)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(working) }()
	start := time.Now()
	err = create(ctx, api, o)
	if err == nil {
		err = settle(ctx, engineOptions, pkg, o.vms)
	}
	stop()
	if err = errors.Join(err, <-ended); err != nil {
		return fmt.Errorf("make the VMs: %w", err)
	}
	fmt.Fprintf(os.Stderr, "bench: %d VMs with all their objects, after %.0f s\n", o.vms, time.Since(start).Seconds())
	return nil
}

// create makes VMs with one disk, as those of the figures render.min.*.
func create(ctx context.Context, api *apiserver.Client, o options) error {
	text, err := os.ReadFile(filepath.Join(o.root, "bench/testdata/min.yaml"))
	if err != nil {
		return err
	}
	next := make(chan int)
	var workers sync.WaitGroup
	errs := make([]error, o.vms)
	for range 4 {
		workers.Go(func() {
			for i := range next {
				errs[i] = createOne(ctx, api, text, fmt.Sprintf("vm-%05d", i))
			}
		})
	}
	for i := range o.vms {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

func createOne(ctx context.Context, api *apiserver.Client, text []byte, name string) error {
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return err
	}
	object["metadata"] = map[string]any{"name": name, "namespace": namespace}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = api.Create(ctx, apiserver.Ref{GroupVersionKind: machines, Namespace: namespace, Name: name}, body, "bench", false)
	return err
}

// settle waits until nothing is left to be done for the last VMs, and then for all.
func settle(ctx context.Context, o controller.Options, pkg controller.Package, vms int) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(vms)*time.Millisecond + time.Second):
		}
		view, err := controller.NewView(ctx, o, pkg)
		if err != nil {
			return err
		}
		subjects := plan.Subjects(view)
		// Most are done one after the other: a sample tells when it is worth looking at all.
		for _, sample := range [][]plan.Subject{subjects[:min(len(subjects), 50)], subjects[max(0, len(subjects)-50):], subjects} {
			p, err := plan.Make(ctx, view, pkg, pkg, sample)
			if err != nil {
				return err
			}
			if p.Summary.Changes > 0 {
				subjects = nil
				break
			}
		}
		if len(subjects) == vms {
			return nil
		}
	}
}
