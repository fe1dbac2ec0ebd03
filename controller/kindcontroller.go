package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// kindController works on the custom resources of one template package.
type kindController struct {
	*Engine
	log logr.Logger
	pkg atomic.Pointer[Package]
	// kind is that of the custom resources.
	kind    schema.GroupVersionKind
	watches *watch.Set
	// queue is set once the controller has started.
	queue atomic.Pointer[priorityqueue.PriorityQueue[reconcile.Request]]
	// missing are kinds that templates make or look at, and that the API server does not have.
	missing atomic.Pointer[[]schema.GroupVersionKind]

	// changing is held by passes for reading, and while watches change: a kind that has just been left alone, or begun
	// anew, looks as if it had no objects.
	changing sync.RWMutex

	cancel context.CancelFunc
	done   sync.WaitGroup
	// everMade are the kinds that were ever made, also by earlier templates and managers.
	everMade map[schema.GroupVersionKind]bool

	// declared are the metrics that the templates declare.
	declared series

	// example is where the last custom resource that was rendered looks.
	example atomic.Pointer[pattern]
	// lastRead is the pattern that was read last.
	lastRead atomic.Pointer[readPattern]

	mu sync.Mutex
	// scattered says that the states are amid what passes have left.
	scattered bool
	states    map[types.NamespacedName]*state
	// byUID are the custom resources that there are.
	byUID map[types.UID]types.NamespacedName
}

func newKindController(e *Engine, p Package) *kindController {
	k := &kindController{
		Engine: e, log: e.options.Log.WithValues("controller", p.Set.Kind.Kind), kind: gvk(p.Set.Kind.APIVersion(), p.Set.Kind.Kind),
		states: map[types.NamespacedName]*state{}, byUID: map[types.UID]types.NamespacedName{},
	}
	k.watches = watch.NewSet(watch.Options{Clients: e.clients, Namespaces: e.options.Namespaces, Manager: p.Owner, Changed: k.changed})
	return k
}

func gvk(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// update makes the controller work with a package. It starts it if the kind of its custom resources is there, and ends it if
// it is not any more.
func (k *kindController) update(ctx context.Context, p Package) error {
	last := k.pkg.Swap(&p)
	if _, err := k.api.Mapping(k.kind); err != nil {
		k.stop()
		return fmt.Errorf("look for %s on the API server: %w", k.kind.Kind, err)
	}
	if k.cancel == nil {
		ctx, k.cancel = context.WithCancel(ctx)
		if err := k.start(ctx); err != nil {
			k.stop()
			return err
		}
		return nil
	}
	if err := k.watch(ctx); err != nil {
		return err
	}
	if last == nil || last.Revision != p.Revision {
		k.log.Info("templates have changed", "revision", p.Revision)
		k.enqueueAll()
	}
	return nil
}

func (k *kindController) start(ctx context.Context) error {
	c, err := runtimecontroller.NewUnmanaged(k.pkg.Load().Name, runtimecontroller.Options{
		Reconciler: k, MaxConcurrentReconciles: k.options.Workers, SkipNameValidation: ptr.To(true), RecoverPanic: ptr.To(true),
		Logger: k.options.Log, NeedLeaderElection: ptr.To(false), UsePriorityQueue: ptr.To(true),
	})
	if err != nil {
		return fmt.Errorf("make a controller: %w", err)
	}
	started := make(chan struct{})
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
		if !ok {
			return fmt.Errorf("make a controller: its queue is a %T", q)
		}
		k.queue.Store(&pq)
		close(started)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("make a controller: %w", err)
	}
	k.done.Go(func() {
		if err := c.Start(ctx); err != nil {
			k.log.Error(err, "controller has ended")
		}
	})
	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Watches begin when there is a queue for what they tell.
	if err := k.loadKinds(ctx); err != nil {
		return err
	}
	return k.watch(ctx)
}

func (k *kindController) stop() {
	if k.cancel == nil {
		return
	}
	k.cancel()
	// Passes end first, as without watches they would see an empty cluster.
	k.done.Wait()
	k.watches.Stop()
	k.cancel = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states, k.byUID = map[types.NamespacedName]*state{}, map[types.UID]types.NamespacedName{}
}

// watch brings the watches in line with what the templates make and look at.
func (k *kindController) watch(ctx context.Context) error {
	p := k.pkg.Load()
	if err := k.rememberKinds(ctx, p.Set); err != nil {
		return err
	}
	wants := k.wants(p.Set)
	k.changing.Lock()
	begun, missing, err := k.watches.Update(ctx, wants)
	if begun {
		k.wantAgain()
	}
	k.changing.Unlock()
	if err != nil {
		return err
	}
	if last := k.missing.Swap(&missing); last != nil && len(*last) != len(missing) {
		k.enqueueAll()
	}
	return nil
}

// wants are the kinds that were ever made, and those that templates look at, with what they see of them.
func (k *kindController) wants(set *render.Set) map[schema.GroupVersionKind]watch.Want {
	wants := map[schema.GroupVersionKind]watch.Want{}
	for made := range k.everMade {
		wants[made] = watch.Want{}
	}
	for _, l := range set.Watches {
		kind := gvk(l.APIVersion, l.Kind)
		wants[kind] = watch.Want{Content: union(wants[kind].Content, l)}
	}
	wants[k.kind] = watch.Want{Content: &render.Lookup{APIVersion: set.Kind.APIVersion(), Kind: set.Kind.Kind}}
	return wants
}

// wantAgain makes all custom resources known to what they look at: a watch that has begun anew knows of none.
func (k *kindController) wantAgain() {
	k.mu.Lock()
	states := maps.Clone(k.states)
	k.mu.Unlock()
	for _, s := range states {
		k.want(s.who, pattern{}, s.at)
		k.wantOthers(s.who, nil, s.others)
	}
}

// union is a lookup for all that two lookups of one kind ask for.
func union(all *render.Lookup, l render.Lookup) *render.Lookup {
	if l.MetadataOnly {
		l.Fields = []string{"metadata"}
	}
	out := render.Lookup{APIVersion: l.APIVersion, Kind: l.Kind, Fields: l.Fields, MetadataOnly: l.MetadataOnly}
	switch {
	case all == nil:
	case all.Fields == nil || l.Fields == nil:
		out.Fields, out.MetadataOnly = nil, false
	default:
		out.MetadataOnly = all.MetadataOnly && l.MetadataOnly
		out.Fields = slices.Concat(all.Fields, l.Fields)
	}
	slices.Sort(out.Fields)
	out.Fields = slices.Compact(out.Fields)
	return &out
}

// changed is told of every change of a watched object.
func (k *kindController) changed(kind *watch.Kind, was, is *watch.Item) {
	if was == nil && is == nil {
		// A list is complete: passes may have waited for it.
		k.enqueueAll()
		return
	}
	if kind.GroupVersionKind == k.kind {
		k.noteResource(kind, was, is)
		return
	}
	if was != nil && is != nil && was.Same(is) {
		return
	}
	turn := now
	if was == nil && is.Key() != "" {
		// It was made here, most likely a moment ago, and the others made with it are about to be seen, too.
		turn = afterwards
	}
	for _, i := range []*watch.Item{was, is} {
		if i == nil {
			continue
		}
		for _, uid := range []types.UID{i.Owner(), i.PatchedFor()} {
			if ref, ok := k.resource(uid); ok {
				k.enqueue(ref, turn)
			}
		}
		for _, ref := range kind.Wanting(i) {
			k.enqueue(ref, turn)
		}
	}
}

// noteResource follows which custom resources there are. Of two changes at a time the later one may be told first, so what there is now
// counts.
func (k *kindController) noteResource(kind *watch.Kind, was, is *watch.Item) {
	k.mu.Lock()
	for _, i := range []*watch.Item{was, is} {
		if i == nil {
			continue
		}
		delete(k.byUID, i.UID())
		if there := kind.Get(i.Ref()); there != nil {
			k.byUID[there.UID()] = there.Ref()
		}
	}
	k.mu.Unlock()
	switch {
	case is == nil:
		k.enqueue(was.Ref(), now)
	case was != nil && was.Generation() == is.Generation() && was.Deleting() == is.Deleting():
		// What is new is in the status, or an annotation.
		k.enqueue(is.Ref(), afterwards)
	default:
		k.enqueue(is.Ref(), now)
	}
}

// resource is the custom resource with a UID, if it is there.
func (k *kindController) resource(uid types.UID) (types.NamespacedName, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ref, ok := k.byUID[uid]
	return ref, ok
}

// turn is when a custom resource has its pass.
type turn priorityqueue.AddOpts

var (
	// now is as soon as there is a worker.
	now = turn{}
	// afterwards is when no other one waits that somebody has made or changed.
	afterwards = turn{Priority: ptr.To(-1), After: 50 * time.Millisecond}
	// eventually is after those.
	eventually = turn{Priority: ptr.To(-2)}
)

func (k *kindController) enqueue(ref types.NamespacedName, t turn) {
	if q := k.queue.Load(); q != nil {
		(*q).AddWithOpts(priorityqueue.AddOpts(t), reconcile.Request{NamespacedName: ref})
	}
}

func (k *kindController) enqueueAll() {
	kind := k.watches.Kind(k.kind)
	if kind == nil {
		return
	}
	for _, i := range kind.All() {
		k.enqueue(i.Ref(), eventually)
	}
}
