package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// View is what a cluster had at one moment, of all that a template package looks at and has made. It is what the engine sees,
// got by the same watches; it changes nothing in the cluster. It may be used by several goroutines at a time.
type View struct {
	k *kindController

	mu sync.Mutex
	// guesses are where the templates look for a custom resource, by a digest of its specification; its name is taken out.
	guesses map[string]pattern
	// examples are where templates of a revision have looked last.
	examples map[string]pattern
}

// NewView looks at the cluster once, for packages of one kind: the one in use, and one that may come. Of the options it needs Config,
// HTTPClient, Mapper, Namespaces and OwnNamespace.
func NewView(ctx context.Context, o Options, packages ...Package) (*View, error) {
	e, err := New(o)
	if err != nil {
		return nil, err
	}
	k := newKindController(e, packages[0])
	k.pkg.Store(&packages[0])
	if _, err := k.api.Mapping(k.kind); err != nil {
		return nil, fmt.Errorf("look for %s on the API server: %w", k.kind.Kind, err)
	}
	if err := k.loadKinds(ctx); err != nil {
		return nil, err
	}
	wants := map[schema.GroupVersionKind]watch.Want{}
	for _, p := range packages {
		for _, m := range p.Set.Makes {
			k.everMade[gvk(m.APIVersion, m.Kind)] = true
		}
	}
	for _, p := range packages {
		for kind, w := range k.wants(p.Set) {
			if w.Content != nil {
				w.Content = union(wants[kind].Content, *w.Content)
			} else {
				w = wants[kind]
			}
			wants[kind] = w
		}
	}
	// What comes after the lists is not looked at: a view is of one moment.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if _, _, err := k.watches.Update(watching, wants); err != nil {
		return nil, err
	}
	if err := k.sync(ctx); err != nil {
		return nil, err
	}
	return &View{k: k, guesses: map[string]pattern{}, examples: map[string]pattern{}}, nil
}

// sync waits until all that is watched is known. What cannot be read ends it.
func (k *kindController) sync(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		synced := true
		for _, kind := range k.watches.Kinds() {
			if err := kind.Problem(); err != nil {
				return fmt.Errorf("read objects of the kind %s: %w", kind.Kind, err)
			}
			synced = synced && kind.Synced()
		}
		if synced {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("look at the cluster: %w", ctx.Err())
		}
	}
}

// Resources are the custom resources, sorted by namespace and name.
func (v *View) Resources() []*watch.Item {
	all := v.k.watches.Kind(v.k.kind).All()
	slices.SortFunc(all, func(a, b *watch.Item) int {
		return strings.Compare(a.Namespace()+"/"+a.Name(), b.Namespace()+"/"+b.Name())
	})
	return all
}

// Resource is one custom resource; nil if there is none of that name.
func (v *View) Resource(namespace, name string) *watch.Item {
	return v.k.watches.Kind(v.k.kind).Get(types.NamespacedName{Namespace: namespace, Name: name})
}

// Live reads whole objects, and hands over each that is there, in no order, to several goroutines at a time. Many of a kind are read as a
// list.
func (v *View) Live(ctx context.Context, refs []apiserver.Ref, use func(apiserver.Ref, *unstructured.Unstructured) error) error {
	wanted := map[liveGroup]map[string]apiserver.Ref{}
	for _, ref := range refs {
		g := liveGroup{ref.GroupVersionKind, ref.Namespace}
		if wanted[g] == nil {
			wanted[g] = map[string]apiserver.Ref{}
		}
		wanted[g][ref.Name] = ref
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(parallelReads)
	for g, names := range wanted {
		readers.Go(func() error { return v.liveOf(ctx, g, names, use) })
	}
	return readers.Wait()
}

// liveGroup are the objects of a kind in a namespace.
type liveGroup struct {
	schema.GroupVersionKind
	namespace string
}

// liveOf reads the objects of a group, by their names.
func (v *View) liveOf(ctx context.Context, g liveGroup, names map[string]apiserver.Ref, use func(apiserver.Ref, *unstructured.Unstructured) error) error {
	if len(names) > fewReads {
		return v.list(ctx, g.GroupVersionKind, g.namespace, func(object *unstructured.Unstructured) error {
			ref, ok := names[object.GetName()]
			if !ok {
				return nil
			}
			return use(ref, object)
		})
	}
	for _, ref := range names {
		object, err := v.k.api.GetWhole(ctx, ref)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", ref, err)
		}
		if err := use(ref, object); err != nil {
			return err
		}
	}
	return nil
}

const (
	// fewReads is up to how many objects of a kind are read one by one.
	fewReads = 20
	// pageSize is how many objects a list has at a time: a few megabytes.
	pageSize = 200
	// parallelReads is how many kinds and namespaces are read at a time.
	parallelReads = 4
)

// list reads all objects of a kind, a page at a time.
func (v *View) list(ctx context.Context, kind schema.GroupVersionKind, namespace string, use func(*unstructured.Unstructured) error) error {
	mapping, err := v.k.api.Mapping(kind)
	if err != nil {
		return err
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := v.k.clients.Dynamic.Resource(mapping.Resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", mapping.Resource.Resource, err)
		}
		for i := range page.Items {
			if err := use(&page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// guess is where the templates of a revision probably look for a custom resource: where they did for one of the same specification, or
// else for the last one. A wrong guess costs one more render, as none does.
func (v *View) guess(key, revision string) pattern {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.guesses[key+revision]; ok {
		return at
	}
	if at, ok := v.examples[revision]; ok {
		return at
	}
	return noWhere
}

func (v *View) learn(key, revision string, at pattern) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.examples[revision] = at
	if _, ok := v.guesses[key+revision]; !ok {
		v.guesses[key+revision] = at
	}
}

// nameMark stands for a name. No name has this character.
const nameMark = "\x00"
