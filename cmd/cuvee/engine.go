package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
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
	managerConfigFlags
	site    string
	manager string
}

func (f *engineFlags) bind(cmd *cobra.Command) {
	f.clusterFlags.bind(cmd)
	f.managerConfigFlags.bind(cmd.Flags(), "without it the settings that the manager works with")
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
	return e, e.load(cmd.Context(), f, cmd.ErrOrStderr())
}

// changes says whether other templates or settings are named than those that the manager works with.
func (f *engineFlags) changes() bool { return f.site != "" || f.config != "" }

// load compiles the templates of the manager, and those that the user has named.
func (e *engine) load(ctx context.Context, f *engineFlags, notes io.Writer) error {
	core, err := corev1client.NewForConfigAndClient(e.options.Config, e.options.HTTPClient)
	if err != nil {
		return fmt.Errorf("make a client of the API server: %w", err)
	}
	kept, err := controller.TemplateKeeper{ConfigMaps: core.ConfigMaps(e.options.OwnNamespace)}.Load(ctx)
	if err != nil {
		return e.failed(err)
	}
	if kept == nil && f.site == "" {
		fmt.Fprintf(notes, "note: there is no ConfigMap %s in the namespace %s, so the templates that are built in are used\n", controller.KeptTemplates, e.options.OwnNamespace)
	}
	if e.files, err = templateset.ReadKept(cuvee.Files, kept); err != nil {
		return err
	}
	if e.current, err = e.files.Load(); err != nil {
		return fmt.Errorf("compile the manager's templates (ConfigMap %s/%s): %w", e.options.OwnNamespace, controller.KeptTemplates, err)
	}
	e.candidate = e.current
	if !f.changes() {
		return nil
	}
	if e.files, err = f.named(e, notes); err != nil {
		return err
	}
	e.candidate, err = e.files.Load()
	return err
}

// named are the files that the flags name. Of templates and settings, what they do not name is what the manager works with.
func (f *engineFlags) named(e *engine, notes io.Writer) (templateset.Files, error) {
	files := e.files
	if f.site != "" {
		site, err := templateset.ReadDirectory(cuvee.Files, f.site)
		if err != nil {
			return files, fmt.Errorf("open site: %w", err)
		}
		files = site.WithSettingsOf(e.files)
	}
	config, err := f.managerConfigFlags.read(notes)
	if err != nil || config == nil {
		return files, err
	}
	if own := e.options.OwnNamespace; config.Namespace != "" && config.Namespace != own {
		fmt.Fprintf(notes, "note: %s is for a manager of the namespace %s, and this is about that of %s\n", f.config, config.Namespace, own)
	}
	return files.WithSettings(f.config, config.Settings), nil
}

// pair are the templates of one kind: those that the manager works with, and those that are looked at.
type pair struct{ current, candidate controller.Package }

// kind is the kind of custom resource.
func (p pair) kind() render.Kind { return p.candidate.Set.Kind }

// pairs are all kinds that the candidate has. One that the manager does not have yet is as it would be.
func (e *engine) pairs() []pair {
	var out []pair
	for _, p := range e.candidate.Packages {
		now := p
		if i := slices.IndexFunc(e.current.Packages, func(c controller.Package) bool { return c.Name == p.Name }); i >= 0 {
			now = e.current.Packages[i]
		}
		out = append(out, pair{now, p})
	}
	return out
}

// vms are the templates of VirtualMachines: a site may be a module of its own, without them.
func (e *engine) vms() (pair, error) {
	for _, p := range e.pairs() {
		if "templates/"+p.candidate.Name == vmTemplates {
			return p, nil
		}
	}
	return pair{}, fmt.Errorf("there is no %s among the templates", vmTemplates)
}

// errNoKind says that a cluster lacks a CustomResourceDefinition.
var errNoKind = errors.New("the cluster does not know this kind, its CustomResourceDefinition has to be applied before")

// view looks at the cluster.
func (e *engine) view(ctx context.Context, p pair) (*controller.View, error) {
	view, err := controller.NewView(ctx, e.options, p.current, p.candidate)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%s %s: %w", p.kind().APIVersion(), p.kind().Kind, errNoKind)
	}
	return view, e.failed(err)
}

// manifests reads custom resources of some kinds from files, by kind; those without a namespace are in that of the command.
func (e *engine) manifests(cmd *cobra.Command, files []string, kinds ...pair) (map[string][]*unstructured.Unstructured, error) {
	if len(files) == 0 {
		return nil, nil
	}
	in := inputFlags{files: files, namespace: e.namespace}
	docs, err := in.read(cmd)
	if err != nil {
		return nil, err
	}
	out := map[string][]*unstructured.Unstructured{}
	var faults render.Faults
	for _, p := range kinds {
		docs, _ := ofKind(cmd.ErrOrStderr(), docs, p.kind())
		for _, d := range docs {
			u := &unstructured.Unstructured{Object: d.Object}
			if u.GetName() == "" {
				faults = append(faults, render.Fault{File: d.File, Path: "metadata.name", Message: "is missing"})
			}
			out[p.kind().Kind] = append(out[p.kind().Kind], u)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	if len(out) == 0 {
		var names []string
		for _, p := range kinds {
			names = append(names, p.kind().Kind)
		}
		return nil, fmt.Errorf("no %s in %s", strings.Join(names, " or "), in.named())
	}
	return out, nil
}
