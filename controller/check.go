package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// Check renders every custom resource with templates that are to come. It is what a [templateset.Store] asks before it takes
// them: the error is a [templateset.BrokenError] for the first custom resource that renders now, and would not any more. A manager
// that is not the one that works does not know what there is: it waits until it is. One render comes after the other, so
// that the work of today goes on beside it.
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

func (k *kindController) check(ctx context.Context, p Package, accepts func(object string) bool) error {
	resources, err := k.all(ctx)
	if err != nil {
		return err
	}
	for _, item := range resources {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := k.try(p.Set, item)
		object := k.kind.Kind + " " + item.Ref().String()
		if err == nil || accepts(object) {
			continue
		}
		// What does not render now either is no worse off.
		if k.try(k.pkg.Load().Set, item) == nil {
			return &templateset.BrokenError{Object: object, Err: err}
		}
	}
	return nil
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

// try renders a custom resource with what is in the cluster, and changes nothing.
func (k *kindController) try(set *render.Set, item *watch.Item) error {
	resource, err := item.Object()
	if err != nil {
		return err
	}
	p := &pass{kindController: k, pkg: &Package{Set: set}, ref: item.Ref(), item: item, resource: resource}
	r, err := set.Render(p.input(nil))
	if err != nil {
		return err
	}
	k.changing.RLock()
	observed, err := k.gather(set, k.addressesOf(item.Ref().Namespace, r.Observe))
	k.changing.RUnlock()
	if err != nil || len(observed) == 0 {
		return err
	}
	_, err = set.Render(p.input(observed))
	return err
}
