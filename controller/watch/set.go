package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/render"
)

// Clients are what objects are listed and watched by.
type Clients struct {
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	Mapper   *apiserver.Mapper
}

// Options of a Set.
type Options struct {
	Clients
	// Namespaces are those to watch; empty means all.
	Namespaces []string
	// Manager is our field manager.
	Manager string
	// Changed is called for each change, without an object before it was there and after it is gone, and with neither when
	// a list is complete. It must not block.
	Changed func(kind *Kind, was, is *Item)
}

// Set watches kinds for one template package. Kinds come and go with what the templates ask for.
type Set struct {
	options Options

	mu    sync.RWMutex
	kinds map[schema.GroupVersionKind]*running
}

type running struct {
	*Kind
	want Want
	stop context.CancelFunc
	done sync.WaitGroup
}

// Want says what to keep of a kind.
type Want struct {
	// Content says which part templates see; nil if they see none.
	Content *render.Lookup
}

// equal says that two wants keep the same.
func (w Want) equal(o Want) bool {
	if w.Content == nil || o.Content == nil {
		return w.Content == o.Content
	}
	return w.Content.MetadataOnly == o.Content.MetadataOnly && slices.Equal(w.Content.Fields, o.Content.Fields)
}

// NewSet returns a set that watches nothing yet.
func NewSet(o Options) *Set {
	return &Set{options: o, kinds: map[schema.GroupVersionKind]*running{}}
}

// Kind returns a kind that is watched; nil if it is not.
func (s *Set) Kind(gvk schema.GroupVersionKind) *Kind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.kinds[gvk]; r != nil {
		return r.Kind
	}
	return nil
}

// Kinds are all kinds that are watched.
func (s *Set) Kinds() []*Kind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*Kind, 0, len(s.kinds))
	for _, r := range s.kinds {
		out = append(out, r.Kind)
	}
	return out
}

// Update watches what is wanted from now on, and no longer what is not. A kind that the API server does not have is left out,
// and returned: its CustomResourceDefinition may come. begun says that there is a watch that was not there before, of which nobody wants
// anything yet. The context ends the watches.
func (s *Set) Update(ctx context.Context, wants map[schema.GroupVersionKind]Want) (begun bool, missing []schema.GroupVersionKind, err error) {
	mappings := map[schema.GroupVersionKind]*meta.RESTMapping{}
	for gvk := range wants {
		m, err := s.options.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			missing = append(missing, gvk)
			continue
		}
		if err != nil {
			return false, nil, fmt.Errorf("look for %s on the API server: %w", gvk, err)
		}
		mappings[gvk] = m
	}
	s.end(func(gvk schema.GroupVersionKind, r *running) bool {
		w, ok := wants[gvk]
		return !ok || mappings[gvk] == nil || !w.equal(r.want)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvk, m := range mappings {
		if s.kinds[gvk] == nil {
			s.kinds[gvk] = s.start(ctx, gvk, m, wants[gvk])
			begun = true
		}
	}
	return begun, missing, nil
}

// end stops watches, and waits for their end without the lock: they may be about to tell something to one who needs it.
func (s *Set) end(which func(schema.GroupVersionKind, *running) bool) {
	var ended []*running
	s.mu.Lock()
	for gvk, r := range s.kinds {
		if which(gvk, r) {
			r.stop()
			ended = append(ended, r)
			delete(s.kinds, gvk)
		}
	}
	s.mu.Unlock()
	for _, r := range ended {
		r.done.Wait()
	}
}

func (s *Set) start(ctx context.Context, gvk schema.GroupVersionKind, m *meta.RESTMapping, w Want) *running {
	namespaced := m.Scope.Name() == meta.RESTScopeNameNamespace
	ctx, stop := context.WithCancel(ctx)
	r := &running{Kind: newKind(gvk, namespaced, project{manager: s.options.Manager, content: w.Content}, s.options.Changed), want: w, stop: stop}
	namespaces := s.options.Namespaces
	if len(namespaces) == 0 || !namespaced {
		namespaces = []string{""}
	}
	for _, n := range namespaces {
		r.synced[n] = false
	}
	for _, n := range namespaces {
		st := store{kind: r.Kind, namespace: n}
		lw, example := s.listWatch(m.Resource, n, st, w)
		reflector := cache.NewReflectorWithOptions(lw, example, st, cache.ReflectorOptions{Name: gvk.Kind + " " + n})
		r.done.Go(func() { reflector.RunWithContext(ctx) })
	}
	return r
}

// listWatch lists and watches metadata only, unless templates see more.
func (s *Set) listWatch(gvr schema.GroupVersionResource, namespace string, st store, w Want) (cache.ListerWatcher, runtime.Object) {
	note := func(err error) error {
		st.kind.noteProblem(namespace, err)
		if apierrors.IsNotFound(err) {
			// The kind is gone, or its version: the next update ends this watch, if the API server says so when it is asked.
			s.options.Mapper.Forget()
		}
		return err
	}
	if w.Content == nil || w.Content.MetadataOnly {
		c := s.options.Metadata.Resource(gvr).Namespace(namespace)
		return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				l, err := c.List(ctx, o)
				return l, note(err)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
				w, err := c.Watch(ctx, o)
				return w, note(err)
			},
		}, s.options.Metadata), &metav1.PartialObjectMetadata{}
	}
	c := s.options.Dynamic.Resource(gvr).Namespace(namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l, err := c.List(ctx, o)
			return l, note(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := c.Watch(ctx, o)
			return w, note(err)
		},
	}, s.options.Dynamic), nil
}

// Stop ends all watches and waits for their end.
func (s *Set) Stop() {
	s.end(func(schema.GroupVersionKind, *running) bool { return true })
}
