package controller

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// Check renders every custom resource with templates that are to come. It is what a [templateset.Store] asks before it takes
// them: the error is a [templateset.BrokenError] for the first custom resource that renders now, and would not any more. A manager
// that is not the one that works does not know what there is: it waits until it is. Renders of passes have
// their turn in between, so that the work of today goes on beside it.
func (e *Engine) Check(ctx context.Context, candidate templateset.Candidate) error {
	select {
	case <-e.started:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, p := range candidate.Packages {
		e.mu.Lock()
		k := e.running[p.Name]
		e.mu.Unlock()
		if k == nil {
			continue // A new kind breaks nothing.
		}
		if err := k.check(ctx, p, candidate.Accepts); err != nil {
			return err
		}
	}
	return nil
}

// checkWait is how often to look whether all is known that a check needs.
const checkWait = 100 * time.Millisecond

// check renders on all CPUs: thousands of custom resources take a minute on each.
func (k *kindController) check(ctx context.Context, p Package, accepts func(object string) bool) error {
	resources, err := k.all(ctx)
	if err != nil {
		return err
	}
	last := k.lastAddresses()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(resources) {
					return
				}
				if err := k.checkOne(p, resources[i], last[resources[i].Ref()].of(resources[i].Ref()), accepts); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// lastAddresses are where the custom resources looked last.
func (k *kindController) lastAddresses() map[types.NamespacedName]pattern {
	// Without passes nothing changes them.
	k.changing.Lock()
	defer k.changing.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[types.NamespacedName]pattern, len(k.states))
	for ref, s := range k.states {
		out[ref] = s.at
	}
	return out
}

func (k *kindController) checkOne(p Package, item *watch.Item, at addresses, accepts func(object string) bool) error {
	err := k.try(p.Set, item, at)
	object := k.kind.Kind + " " + item.Ref().String()
	if err == nil || accepts(object) {
		return nil
	}
	// What does not render now either is no worse off.
	if k.try(k.pkg.Load().Set, item, at) != nil {
		return nil
	}
	return &templateset.BrokenError{Object: object, Err: err}
}

// all are the custom resources, as soon as all that is watched is known.
func (k *kindController) all(ctx context.Context) ([]*watch.Item, error) {
	tick := time.NewTicker(checkWait)
	defer tick.Stop()
	for {
		k.changing.RLock()
		kind, err := k.watches.Kind(k.kind), k.unsynced()
		k.changing.RUnlock()
		if kind == nil {
			return nil, nil // The API server does not have the kind.
		}
		if err == nil {
			return kind.All(), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for what is in the cluster: %w", err)
		}
	}
}

// try renders a custom resource with what is in the cluster, and changes nothing. Other templates may look elsewhere than it looked
// last, so what fails is tried again from the beginning.
func (k *kindController) try(set *render.Set, item *watch.Item, at addresses) error {
	resource, err := item.Object()
	if err != nil {
		return err
	}
	p := &pass{kindController: k, pkg: &Package{Set: set}, ref: item.Ref(), item: item, resource: resource}
	if err = p.try(at); err != nil && len(at) > 0 {
		err = p.try(nil)
	}
	return err
}

func (p *pass) try(at addresses) error {
	for range maxRenders {
		p.changing.RLock()
		observed, err := p.find(p.pkg.Set, at).gather(p.pkg.Set)
		p.changing.RUnlock()
		if err != nil {
			return err
		}
		r, err := p.inTurn(observed)
		if err != nil {
			return err
		}
		p.changing.RLock()
		next := p.addressesOf(p.ref.Namespace, r.Observe)
		p.changing.RUnlock()
		if next.equal(at) {
			return nil
		}
		at = next
	}
	return nil
}

// inTurn renders when it is its turn.
func (p *pass) inTurn(observed map[string][]map[string]any) (*render.Result, error) {
	ready := p.turnToRender()
	defer ready()
	return p.pkg.Set.Render(p.input(observed))
}
