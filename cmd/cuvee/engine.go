package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/render"
)

// engineFlags say which cluster to look at as its manager does, and with which templates.
type engineFlags struct {
	clusterFlags
	site    string
	manager string
}

func (f *engineFlags) bind(cmd *cobra.Command) {
	f.clusterFlags.bind(cmd)
	bindText(cmd.Flags(), &f.site, "site", "a `DIRECTORY` with a site's CUE files; without it those that the manager works with")
	bindText(cmd.Flags(), &f.manager, "manager-namespace", "the `NAMESPACE` of the manager, which keeps its templates there; without it the one of --namespace")
}

// engine is a cluster as its manager sees it.
type engine struct {
	*cluster
	options controller.Options
	// current are the templates that the manager works with, candidate those that the user has named, or the same.
	current, candidate templateset.Set
	// files are those of the candidate.
	files templateset.Files
}

// engine connects, and loads the templates. No namespaces are all of them.
func (f *engineFlags) engine(cmd *cobra.Command, namespaces ...string) (*engine, error) {
	c, err := f.connect(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	// What goes wrong is returned; nothing else is to be told.
	klog.SetLogger(logr.Discard())
	hc, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(c.config, hc)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	own := f.manager
	if own == "" {
		own = c.namespace
	}
	if namespaces == nil {
		namespaces = []string{c.namespace}
	}
	e := &engine{cluster: c, options: controller.Options{
		Config: c.config, HTTPClient: hc, Mapper: mapper, Namespaces: namespaces, OwnNamespace: own, Log: logr.Discard(),
	}}
	return e, e.load(cmd.Context(), f.site, cmd.ErrOrStderr())
}

// load compiles the templates of the manager, and those of the site.
func (e *engine) load(ctx context.Context, site string, notes io.Writer) error {
	core, err := corev1client.NewForConfigAndClient(e.options.Config, e.options.HTTPClient)
	if err != nil {
		return fmt.Errorf("make a client of the API server: %w", err)
	}
	kept, err := controller.TemplateKeeper{ConfigMaps: core.ConfigMaps(e.options.OwnNamespace)}.Load(ctx)
	if err != nil {
		return e.failed(err)
	}
	if kept == nil && site == "" {
		fmt.Fprintf(notes, "note: there is no ConfigMap %s in the namespace %s, so the templates that are built in are used\n", controller.KeptTemplates, e.options.OwnNamespace)
	}
	if e.files, err = templateset.ReadKept(cuvee.Files, kept); err != nil {
		return err
	}
	if e.current, err = e.files.Load(); err != nil {
		return fmt.Errorf("compile the manager's templates (ConfigMap %s/%s): %w", e.options.OwnNamespace, controller.KeptTemplates, err)
	}
	e.candidate = e.current
	if site == "" {
		return hasVMs(e.current)
	}
	if e.files, err = templateset.ReadDirectory(cuvee.Files, site); err != nil {
		return fmt.Errorf("open site: %w", err)
	}
	if e.candidate, err = e.files.Load(); err != nil {
		return err
	}
	return errors.Join(hasVMs(e.current), hasVMs(e.candidate))
}

// hasVMs says that there are templates of VirtualMachines: a site may be a module of its own.
func hasVMs(s templateset.Set) error {
	if vmPackage(s).Set == nil {
		return fmt.Errorf("there is no %s among the templates", vmTemplates)
	}
	return nil
}

// vmPackage is the package of VirtualMachines.
func vmPackage(s templateset.Set) controller.Package {
	for _, p := range s.Packages {
		if "templates/"+p.Name == vmTemplates {
			return p
		}
	}
	return controller.Package{}
}

// view looks at the cluster.
func (e *engine) view(ctx context.Context) (*controller.View, error) {
	view, err := controller.NewView(ctx, e.options, vmPackage(e.current), vmPackage(e.candidate))
	return view, e.failed(err)
}

// manifests reads VMs from files; those without a namespace are in that of the command.
func (e *engine) manifests(cmd *cobra.Command, files []string) ([]*unstructured.Unstructured, error) {
	if len(files) == 0 {
		return nil, nil
	}
	in := inputFlags{files: files, namespace: e.namespace}
	docs, _, err := in.load(cmd, vmPackage(e.candidate).Set)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	var faults render.Faults
	for _, d := range docs {
		u := &unstructured.Unstructured{Object: d.Object}
		if u.GetName() == "" {
			faults = append(faults, render.Fault{File: d.File, Path: "metadata.name", Message: "is missing"})
		}
		out = append(out, u)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return out, nil
}
