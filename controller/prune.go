package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// prune removes what was made for the custom resource and is not rendered any more. Nothing but the objects themselves says
// what that is, so nothing is forgotten when a manager ends in the middle of something.
func (p *pass) prune(ctx context.Context) error {
	rendered := map[apiserver.Ref]bool{}
	for _, o := range p.result.Objects {
		ref, err := p.refOf(o)
		if err != nil {
			return err
		}
		if o.Policy.Mode != "delete" {
			rendered[ref] = true
		}
	}
	if err := p.removeOwned(ctx, func(ref apiserver.Ref, _ *watch.Item) bool { return !rendered[ref] }); err != nil {
		return err
	}
	return p.letGoPatches(ctx)
}

// removeOwned removes those of the custom resource's objects that are chosen, but none that is kept.
func (p *pass) removeOwned(ctx context.Context, chosen func(apiserver.Ref, *watch.Item) bool) error {
	var problems []*problem
	for _, kind := range p.watches.Kinds() {
		for _, i := range kind.Owned(p.item.UID()) {
			ref := refOfItem(kind, i)
			p.judgeUnseen(ref, i)
			if i.Keep() || i.Deleting() || !chosen(ref, i) {
				continue
			}
			if err := p.delete(ctx, ref, i); err != nil {
				problems = append(problems, problemOf(err))
			}
		}
	}
	return joined(problems)
}

// judgeUnseen remembers an object that this pass has not come to.
func (p *pass) judgeUnseen(ref apiserver.Ref, i *watch.Item) {
	if p.judged[ref] == nil {
		p.judge(ref, i)
	}
}

// delete removes an object, but no other one that has its name by now.
func (p *pass) delete(ctx context.Context, ref apiserver.Ref, i *watch.Item) error {
	err := p.api.Delete(ctx, ref, i.UID())
	p.countWrite("delete", ref, err)
	if apierrors.IsNotFound(err) {
		return nil
	}
	// A conflict says that it is another object by now, or nothing certain: the next pass sees which.
	if err != nil {
		return writeProblem("delete", ref, err)
	}
	p.note("Deleted", ref)
	return nil
}

// owned are the objects that were made for the custom resource, and have to be gone before it may go: those that the
// cluster does not remove with it.
func (p *pass) owned() []types.NamespacedName {
	var out []types.NamespacedName
	for _, kind := range p.watches.Kinds() {
		for _, i := range kind.Owned(p.item.UID()) {
			if !i.Keep() && !i.OwnerReferenced() {
				out = append(out, i.Ref())
			}
		}
	}
	return out
}
