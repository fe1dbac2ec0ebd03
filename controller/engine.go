package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// Package is a template package: the templates of one kind.
type Package = templateset.Package

// Source has the template packages of now.
type Source interface {
	// Current are the packages; the list is not changed.
	Current() []Package
	// Changed tells that Current has become another one.
	Changed() <-chan struct{}
}

// Options of an Engine.
type Options struct {
	// Config, HTTPClient and Mapper are the way to the API server.
	Config     *rest.Config
	HTTPClient *http.Client
	Mapper     meta.RESTMapper
	// Source has the templates.
	Source Source
	// Namespaces are those to work in; empty means all.
	Namespaces []string
	// OwnNamespace is where the engine keeps which kinds it has ever made.
	OwnNamespace string
	// Recorder writes Events.
	Recorder events.EventRecorder
	// OnceRecorder writes those about a custom resource that has no status yet, or that is gone: they do not come again, so it need not
	// remember them. Recorder writes them, too, if it is nil.
	OnceRecorder events.EventRecorder
	// Workers is how many custom resources of a kind are worked on at a time.
	Workers int
	// Resync is in what time each custom resource is looked at once though nothing has happened; 0 is never.
	Resync time.Duration
	Log    logr.Logger
}

// Engine runs a controller for each template package.
type Engine struct {
	options Options
	api     *apiserver.Client
	clients watch.Clients
	metrics *metrics

	// rendering has a place for each render at a time: more than there are CPUs only take memory.
	rendering chan struct{}
	// started is closed when there are controllers to ask.
	started chan struct{}

	mu      sync.Mutex
	running map[string]*kindController
	// failed is why packages are not served, and denied are those for which a right is missing.
	failed map[string]error
	denied map[string]bool
}

// New makes an engine. It does nothing before Start.
func New(o Options) (*Engine, error) {
	mapper := apiserver.NewMapper(o.Config, o.HTTPClient, o.Mapper)
	api, err := apiserver.New(o.Config, o.HTTPClient, mapper)
	if err != nil {
		return nil, err
	}
	unlimited := rest.CopyConfig(o.Config)
	unlimited.QPS = -1
	md, err := metadata.NewForConfigAndClient(unlimited, o.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(unlimited, o.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	if o.Workers < 1 {
		o.Workers = 4
	}
	return &Engine{
		options: o, api: api, metrics: newMetrics(), rendering: make(chan struct{}, runtime.GOMAXPROCS(0)), started: make(chan struct{}), running: map[string]*kindController{}, failed: map[string]error{}, denied: map[string]bool{},
		clients: watch.Clients{Metadata: md, Dynamic: dyn, Mapper: mapper},
	}, nil
}

// NeedLeaderElection says that only one manager at a time may run the engine.
func (e *Engine) NeedLeaderElection() bool { return true }

// Kinds are looked for again after retryFirst, and then after twice as long each time, up to retry: the API server serves a kind a moment
// after its CustomResourceDefinition has changed, and nothing tells of that.
const (
	retryFirst = time.Second
	retry      = 30 * time.Second
)

// Start runs until the context is done. It starts and ends controllers as packages and CustomResourceDefinitions come and go.
func (e *Engine) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	kinds := watch.NewSet(watch.Options{Clients: e.clients, Changed: func(*watch.Kind, *watch.Item, *watch.Item) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	known := e.watchDefinitions(ctx, kinds)
	pause := retryFirst
	timer := time.NewTimer(pause)
	defer timer.Stop()
	e.update(ctx)
	close(e.started)
	for ; ; e.update(ctx) {
		select {
		case <-ctx.Done():
			e.stop()
			kinds.Stop()
			return nil
		case <-e.options.Source.Changed():
		case <-changed:
			pause = retryFirst
		case <-timer.C:
			pause = min(2*pause, retry)
			known = known || e.watchDefinitions(ctx, kinds)
		}
		timer.Reset(pause)
	}
}

// Ready is why the engine cannot work yet; nil if it can. A package for which a right is missing does not keep it from working for the
// others: that is for nobody to wait for. An engine that waits for another manager to end is not asked.
func (e *Engine) Ready() error {
	select {
	case <-e.started:
	default:
		return errors.New("the engine has not started")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	works := false
	var denied error
	for _, name := range slices.Sorted(maps.Keys(e.running)) {
		err := e.failed[name]
		if meta.IsNoMatchError(err) {
			continue // The API server does not have the kind: there is nothing to work on.
		}
		if err == nil {
			err = e.running[name].sees()
		}
		switch {
		case err == nil:
			works = true
		case apierrors.IsForbidden(err):
			denied = fmt.Errorf("package %s: %w", name, err)
		default:
			return fmt.Errorf("package %s: %w", name, err)
		}
	}
	if works {
		return nil
	}
	return denied
}

// sees is why the controller does not know all that is in the cluster; nil if it does.
func (k *kindController) sees() error {
	k.changing.RLock()
	defer k.changing.RUnlock()
	return k.unsynced()
}

// tellDenied says once that a right is missing for a package, and once that it is there.
func (e *Engine) tellDenied(name string, k *kindController) {
	err := k.sees()
	denied := apierrors.IsForbidden(err)
	if denied == e.denied[name] {
		return
	}
	e.denied[name] = denied
	if denied {
		e.options.Log.Error(err, "a right is missing for a template package, and nothing is done for its resources; the others are worked on", "controller", k.kind.Kind)
		return
	}
	e.options.Log.Info("the rights for a template package are there", "controller", k.kind.Kind)
}

// turnToRender waits for a turn to render. Its result ends the turn.
func (e *Engine) turnToRender() (ready func()) {
	e.rendering <- struct{}{}
	return func() { <-e.rendering }
}

// update brings the controllers in line with the packages.
func (e *Engine) update(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wanted := map[string]bool{}
	for _, p := range e.options.Source.Current() {
		wanted[p.Name] = true
		k := e.running[p.Name]
		if k == nil {
			k = newKindController(e, p)
			e.running[p.Name] = k
		}
		err := k.update(ctx, p)
		before := e.failed[p.Name]
		e.failed[p.Name] = err
		switch {
		case err == nil:
			e.tellDenied(p.Name, k)
		case errors.Is(err, context.Canceled):
		case meta.IsNoMatchError(err):
			// A cluster need not have every kind; that it has one now is noticed. Until then there is nothing to render.
			p.Set.Rest()
			if !meta.IsNoMatchError(before) {
				e.options.Log.Info("the cluster does not have the kind of a template package; waiting for it", "controller", p.Set.Kind.Kind)
			}
		default:
			e.options.Log.Error(err, "cannot serve a template package yet; trying again", "controller", p.Set.Kind.Kind)
		}
	}
	for name, k := range e.running {
		if !wanted[name] {
			k.stop()
			delete(e.running, name)
			delete(e.failed, name)
			delete(e.denied, name)
		}
	}
}

func (e *Engine) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.running {
		k.stop()
	}
}
