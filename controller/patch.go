package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// subresource is a part of an object that is applied by itself; the object without its subresources has no name.
type subresource struct {
	apiserver.Ref
	name string
}

// patch changes fields of an object that is there, and that need not be the custom resource's. The UID keeps the change from
// another object of the same name.
func (p *pass) patch(ctx context.Context, t *target) error {
	if t.item == nil || t.item.Deleting() {
		return nil
	}
	if err := p.mayPatch(t); err != nil {
		return err
	}
	p.identify(t)
	same := false
	if t.Policy.Subresource == "" {
		annotations := child(child(t.body, "metadata"), "annotations")
		annotations[watch.HashAnnotation] = t.hash
		annotations[watch.PatchAnnotation] = string(p.item.UID())
		same = t.item.HasHash(t.hash)
	} else {
		if err := p.claim(ctx, t); err != nil || t.item == nil {
			return err
		}
		sent, _ := p.state.sent.get(t.subresource())
		same = sent == t.hash
	}
	if same {
		missing, err := managedfields.Missing(orEmpty(t.fields()), t.body)
		if err == nil && missing != "" {
			err = p.contested(t)
		}
		if err != nil {
			p.judge(t.ref, t.item)
			return err
		}
		if missing == "" {
			p.countSkip(t.ref)
			p.judge(t.ref, t.item)
			return nil
		}
	}
	object, err := p.send(ctx, t)
	if hasGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Policy.Subresource != "" {
		p.state.sent.set(t.subresource(), t.hash)
	}
	return p.learn(t, object)
}

// mayPatch says whether an object can be patched for the custom resource. All resources of a package have one field manager:
// what is applied for one would let go of what is applied for another.
func (p *pass) mayPatch(t *target) error {
	if other, ok := p.resourceWith(t.item.Owner()); ok && t.item.Owner() != p.item.UID() && t.Policy.Subresource == "" {
		return &problem{reason: reasonConflict, wait: true, message: fmt.Sprintf("%s belongs to %s", t.ref, other)}
	}
	// A mark without fields of ours was not made here: somebody has copied it.
	if other, ok := p.resourceWith(t.item.PatchedFor()); ok && t.item.PatchedFor() != p.item.UID() && len(t.item.Fields()) > 0 {
		return &problem{reason: reasonConflict, wait: true, message: fmt.Sprintf("%s is patched for %s", t.ref, other)}
	}
	return nil
}

// identify names the object that is there in what is sent.
func (p *pass) identify(t *target) {
	metadata := child(t.body, "metadata")
	metadata["name"], metadata["uid"] = t.ref.Name, string(t.item.UID())
	if t.ref.Namespace != "" {
		metadata["namespace"] = t.ref.Namespace
	}
}

func (t *target) subresource() subresource { return subresource{t.ref, t.Policy.Subresource} }

// fields is our entry in managedFields for what the target is about.
func (t *target) fields() []byte {
	if t.Policy.Subresource == "" {
		return t.item.Fields()
	}
	return t.item.SubresourceFields(t.Policy.Subresource)
}

func orEmpty(entry []byte) []byte {
	if len(entry) == 0 {
		return []byte("{}")
	}
	return entry
}

// hasGone says that the object is not there any more. A conflict does not say so: the next pass sees whether it is another one by now.
func hasGone(err error) bool {
	return apierrors.IsNotFound(err)
}

// claim marks an object of which only subresources are patched, so that this manager or the next one finds it when they have
// to be let go.
func (p *pass) claim(ctx context.Context, t *target) error {
	if t.item.Owner() == p.item.UID() {
		return nil
	}
	for _, o := range p.result.Objects {
		if !isPatch(o) || o.Policy.Subresource != "" {
			continue
		}
		if ref, err := p.refOf(o); err != nil || ref == t.ref {
			return err // It is marked by that.
		}
	}
	mark := &target{ref: t.ref, kind: t.kind, item: t.item, body: typeOf(t.ref), hash: hashOf(p.pkg.Owner)}
	err := p.patch(ctx, mark)
	t.item = t.kind.Get(t.item.Ref())
	return err
}

// typeOf is what a body for an object begins with.
func typeOf(ref apiserver.Ref) map[string]any {
	apiVersion, kind := ref.ToAPIVersionAndKind()
	return map[string]any{"apiVersion": apiVersion, "kind": kind}
}

// isPatch says that an object is rendered to be changed, and not to be made.
func isPatch(o render.Object) bool {
	return o.Policy.Mode == "patch" || o.Policy.Mode == "apply" && o.Policy.Subresource != ""
}

// letGoPatches lets go of fields that are not rendered any more. The API server removes those that nobody else has.
func (p *pass) letGoPatches(ctx context.Context) error {
	rendered, err := p.renderedPatches()
	if err != nil {
		return err
	}
	var problems []*problem
	for _, kind := range p.watches.Kinds() {
		for _, i := range slices.Concat(kind.Patched(p.item.UID()), kind.Owned(p.item.UID())) {
			if err := p.letGoOf(ctx, kind, i, rendered); err != nil {
				problems = append(problems, problemOf(err))
			}
		}
	}
	return joined(problems)
}

// renderedPatches are the parts of objects that stay as they are applied.
func (p *pass) renderedPatches() (map[subresource]bool, error) {
	rendered := map[subresource]bool{}
	if p.result == nil {
		return rendered, nil
	}
	for _, o := range p.result.Objects {
		if !isPatch(o) && o.Policy.Mode != "hold" {
			continue
		}
		ref, err := p.refOf(o)
		if err != nil {
			return nil, err
		}
		// The object's own fields have the mark.
		rendered[subresource{ref, ""}] = true
		for _, s := range watch.Subresources {
			if s == o.Policy.Subresource || o.Policy.Mode == "hold" {
				rendered[subresource{ref, s}] = true
			}
		}
	}
	return rendered, nil
}

// letGoOf lets go of the parts of an object that are not rendered. The mark is the last to go.
func (p *pass) letGoOf(ctx context.Context, kind *watch.Kind, i *watch.Item, rendered map[subresource]bool) error {
	ref := refOfItem(kind, i)
	p.judgeUnseen(ref, i)
	if i.Deleting() {
		return nil
	}
	for _, s := range watch.Subresources {
		// The status of a kind's own resources is the engine's.
		if rendered[subresource{ref, s}] || len(i.SubresourceFields(s)) == 0 || kind.GroupVersionKind == p.kind {
			continue
		}
		if err := p.applyNothing(ctx, kind, ref, i, s); err != nil {
			return err
		}
		p.state.sent.delete(func(of subresource) bool { return of == subresource{ref, s} })
	}
	// What was made here is kept or removed, whatever marks somebody puts on it.
	if i.PatchedFor() != p.item.UID() || i.Owner() != "" || len(i.Fields()) == 0 || rendered[subresource{ref, ""}] {
		return nil
	}
	return p.applyNothing(ctx, kind, ref, i, "")
}

// applyNothing lets go of all that we have applied to an object, or to its subresource.
func (p *pass) applyNothing(ctx context.Context, kind *watch.Kind, ref apiserver.Ref, i *watch.Item, name string) error {
	nothing := &target{ref: ref, kind: kind, item: i, body: typeOf(ref)}
	p.identify(nothing)
	body, err := json.Marshal(nothing.body)
	if err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	object, err := p.api.Apply(ctx, ref, body, apiserver.Apply{Manager: p.pkg.Owner, Subresource: name, Whole: kind.Whole()})
	p.countWrite("apply", ref, err)
	switch {
	case hasGone(err):
		return nil
	case apierrors.IsInvalid(err):
		// The object would not be valid without the fields, as a pod without its resources: they stay.
		p.logger().Info("fields that are not rendered any more cannot be let go", "object", ref.String(), "subresource", name, "error", err.Error())
		return nil
	case err != nil:
		return writeProblem("let go of", ref, err)
	}
	item, err := kind.Learn(object)
	if err != nil {
		return err
	}
	p.judged[ref] = item
	return nil
}
