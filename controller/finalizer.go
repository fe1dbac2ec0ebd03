package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// self names the custom resource.
func (p *pass) self() apiserver.Ref {
	return apiserver.Ref{GroupVersionKind: p.kind, Namespace: p.ref.Namespace, Name: p.ref.Name}
}

// identity is what a body for the custom resource begins with. The UID keeps a new one of the same name from being changed,
// and one that is gone from being made.
func (p *pass) identity() (body, metadata map[string]any) {
	metadata = map[string]any{"name": p.ref.Name, "uid": string(p.item.UID())}
	if p.ref.Namespace != "" {
		metadata["namespace"] = p.ref.Namespace
	}
	apiVersion, kind := p.kind.ToAPIVersionAndKind()
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}, metadata
}

func (p *pass) finalizers() []string {
	metadata, _ := p.resource["metadata"].(map[string]any)
	list, _ := metadata["finalizers"].([]any)
	var out []string
	for _, f := range list {
		if s, ok := f.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// finalizer keeps the custom resource until what it stands for has ended. It is there before anything is made.
func (p *pass) finalizer(ctx context.Context) error {
	f := p.pkg.Set.Finalizer
	if f == "" || p.item.Deleting() || slices.Contains(p.finalizers(), f) {
		return nil
	}
	body, metadata := p.identity()
	metadata["finalizers"] = []string{f}
	return p.applySelf(ctx, body, "")
}

// applySelf applies to the custom resource, and goes on with what it then is.
func (p *pass) applySelf(ctx context.Context, body map[string]any, subresource string) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write %s: %w", p.self(), err)
	}
	object, err := p.api.Apply(ctx, p.self(), data, apiserver.Apply{Manager: p.pkg.Owner, Force: true, Subresource: subresource, Whole: true})
	p.countWrite("apply", p.self(), err)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return writeProblem("apply", p.self(), err)
	}
	kind := p.watches.Kind(p.kind)
	if kind == nil {
		return nil
	}
	if p.item, err = kind.Learn(object); err != nil {
		return err
	}
	p.resource, err = p.item.Object()
	return err
}

// release lets a custom resource go that is being deleted, once the templates say that all is done. It says whether it did.
func (p *pass) release(ctx context.Context) (bool, error) {
	if !p.item.Deleting() || !p.result.Done {
		return false, nil
	}
	gone, err := p.letGo(ctx)
	if gone {
		p.eventsOfParting()
	}
	return gone, err
}

// abandon lets a custom resource go that is being deleted, though its specification is refused: nobody should have to mend what
// they want to be rid of. What was made is removed without the stages that the templates would have it go through. Templates that do not
// render at all are for the site to mend first. It returns what there is to report: the error that was found, or another.
func (p *pass) abandon(ctx context.Context, found error) error {
	if pr := problemOf(found); !p.item.Deleting() || pr.reason != reasonInvalidSpec {
		return found
	}
	if err := p.removeOwned(ctx, func(apiserver.Ref, *watch.Item) bool { return true }); err != nil {
		return err
	}
	if err := p.letGoPatches(ctx); err != nil {
		return err
	}
	if gone, err := p.letGo(ctx); gone || err != nil {
		return err
	}
	return found
}

// letGo removes the finalizer when nothing is left that the cluster would not remove. It says whether it did.
func (p *pass) letGo(ctx context.Context) (bool, error) {
	f := p.pkg.Set.Finalizer
	at := slices.Index(p.finalizers(), f)
	if at < 0 {
		return false, nil
	}
	// What has no owner reference is not removed by the cluster.
	err := p.removeOwned(ctx, func(_ apiserver.Ref, i *watch.Item) bool { return !i.OwnerReferenced() })
	if err != nil || len(p.owned()) > 0 {
		return false, err
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", at)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": string(p.item.UID())},
		{"op": "test", "path": path, "value": f},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return false, fmt.Errorf("write %s: %w", p.self(), err)
	}
	object, err := p.api.Patch(ctx, p.self(), patch, p.pkg.Owner)
	p.countWrite("patch", p.self(), err)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, writeProblem("release", p.self(), err)
	}
	if err == nil && len(object.Finalizers) == 0 {
		// Another pass would make anew what the cluster is removing.
		p.state.released = p.item.UID()
	}
	// There is nothing any more to report about.
	p.resource = nil
	return true, nil
}
