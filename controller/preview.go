package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// Action is what the engine would do with an object.
type Action string

// The actions.
const (
	// ActionNone: the object stays as it is.
	ActionNone Action = "none"
	// ActionCreate: there is no such object, and it is made.
	ActionCreate Action = "create"
	// ActionUpdate: it is applied, or patched.
	ActionUpdate Action = "update"
	// ActionDelete: it is removed.
	ActionDelete Action = "delete"
	// ActionBlocked: it would be applied, but for what Step.Problem says.
	ActionBlocked Action = "blocked"
)

// Step is what the engine would do with one object.
type Step struct {
	Ref apiserver.Ref
	// Key is the object's role in the templates.
	Key    string
	Action Action
	// Body is what would be sent, with the marks of the engine; nil if nothing would.
	Body map[string]any
	// Drift says that the same was applied before, and somebody else has changed it since.
	Drift bool
	// Problem is why an action is blocked.
	Problem string
}

// Preview is what the engine would do for a custom resource.
type Preview struct {
	// Input is what was rendered: the custom resource, and what the templates have seen.
	Input render.Input
	// Result is what became of it.
	Result *render.Result
	// Steps are the objects, in the templates' order, and then those that would be removed.
	Steps []Step
}

// placeholder is what templates get for random text: what they make of it is never applied.
const placeholder = "00000000000000000000000000000000"

// Preview renders a custom resource as a pass does, and says what that pass would write. A nil item is a custom resource that is not
// there yet. The resource may differ from the item's. The error is [render.Faults] if the templates refuse it.
func (v *View) Preview(pkg Package, item *watch.Item, resource map[string]any) (*Preview, error) {
	ref := refOfResource(resource)
	if item == nil {
		item = watch.NewItem(ref)
	}
	p := &pass{
		kindController: v.k, pkg: &pkg, ref: ref, item: item, resource: resource, looking: true,
		state: &state{}, judged: map[apiserver.Ref]*watch.Item{}, refs: map[string]apiserver.Ref{},
	}
	if err := v.render(p); err != nil {
		return nil, err
	}
	out := &Preview{Result: p.result}
	observed, err := p.find(pkg.Set, p.addresses()).gather(pkg.Set)
	if err != nil {
		return nil, err
	}
	out.Input = p.input(observed)
	rendered := map[apiserver.Ref]bool{}
	for _, o := range p.result.Objects {
		t, err := p.target(o)
		if err != nil {
			return nil, err
		}
		if o.Policy.Mode != "delete" {
			rendered[t.ref] = true
		}
		s, err := p.step(t)
		if err != nil {
			return nil, err
		}
		out.Steps = append(out.Steps, s)
	}
	out.Steps = append(out.Steps, p.pruned(rendered)...)
	return out, nil
}

// render renders where the last one of the same specification, or of any, has looked. Should that not be where this one looks, what is found there
// may have been what is wrong.
func (v *View) render(p *pass) error {
	key, err := guessKey(p.resource, p.ref.Name)
	if err != nil {
		return err
	}
	p.state.at = v.guess(key, p.pkg.Revision)
	guessed := p.state.at != noWhere
	err = p.render()
	if err != nil && guessed {
		p.state.at = noWhere
		err = p.render()
	}
	if err == nil {
		v.learn(key, p.pkg.Revision, p.state.at)
	}
	return err
}

// guessKey is a digest of a specification, without the name.
func guessKey(resource map[string]any, name string) (string, error) {
	data, err := json.Marshal(resource["spec"])
	if err != nil {
		return "", fmt.Errorf("read the specification of %s: %w", name, err)
	}
	sum := sha256.Sum256([]byte(strings.ReplaceAll(string(data), name, nameMark)))
	return hex.EncodeToString(sum[:]), nil
}

func refOfResource(resource map[string]any) types.NamespacedName {
	metadata, _ := resource["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// step is what applyOne would do with an object.
func (p *pass) step(t *target) (Step, error) {
	s := Step{Ref: t.ref, Key: t.Key, Action: ActionNone}
	create := func() { s.Action, s.Body = ActionCreate, t.body }
	mode := t.Policy.Mode
	if isPatch(t.Object) {
		mode = "patch"
	}
	// A certificate is made once; another one is a matter of time.
	if _, ok := p.result.Generate[t.Key]; ok && mode == "apply" {
		mode = "create"
	}
	switch mode {
	case "hold":
	case "create":
		if t.item == nil {
			p.mark(t)
			create()
		}
	case "patch":
		return p.patchStep(t, s)
	case "delete":
		switch {
		case t.item == nil || t.item.Deleting():
		case t.item.Owner() != p.item.UID() && !p.controls(t.item.Controller()):
			s.Action, s.Problem = ActionBlocked, "it is to be deleted, but was not made for this resource"
		default:
			s.Action = ActionDelete
		}
	case "apply":
		return p.keepStep(t, s)
	default:
		return s, fmt.Errorf("policy.%s.mode %q is none", t.Key, mode)
	}
	return s, nil
}

// patchStep is what patch would do.
func (p *pass) patchStep(t *target, s Step) (Step, error) {
	if t.item == nil || t.item.Deleting() {
		return s, nil
	}
	if other, ok := p.resourceWith(t.item.PatchedFor()); ok && t.item.PatchedFor() != p.item.UID() {
		s.Action, s.Problem = ActionBlocked, "it is patched for "+other
		return s, nil
	}
	p.identify(t)
	// What was sent to a subresource is not known here, only whether it was.
	same := t.Policy.Subresource != ""
	if !same {
		annotations := child(child(t.body, "metadata"), "annotations")
		annotations[watch.HashAnnotation], annotations[watch.PatchAnnotation] = t.hash, string(p.item.UID())
		same = t.item.HasHash(t.hash)
	}
	missing, err := managedfields.Missing(orEmpty(t.fields()), t.body)
	if err == nil && (!same || missing != "") {
		s.Action, s.Body, s.Drift = ActionUpdate, t.body, same && t.Policy.Subresource == ""
	}
	return s, err
}

// keepStep is what keep would do.
func (p *pass) keepStep(t *target, s Step) (Step, error) {
	if err := p.mayHave(t); err != nil {
		s.Action, s.Problem = ActionBlocked, problemOf(err).message
		return s, nil //nolint:nilerr // It is what there is to say.
	}
	p.mark(t)
	switch {
	case t.item == nil:
		s.Action, s.Body = ActionCreate, t.body
		return s, nil
	case t.item.Deleting():
		s.Action, s.Problem = ActionBlocked, "it is being deleted; it is made anew when it is gone"
		return s, nil
	}
	covered, err := t.covered()
	if err == nil && !covered {
		s.Action, s.Body, s.Drift = ActionUpdate, t.body, t.item.HasHash(t.hash)
	}
	return s, err
}

// pruned are the objects that prune would remove, and those that would be let go of.
func (p *pass) pruned(rendered map[apiserver.Ref]bool) []Step {
	if p.item.UID() == "" {
		return nil
	}
	var out []Step
	for _, kind := range p.watches.Kinds() {
		for _, i := range kind.Owned(p.item.UID()) {
			if ref := refOfItem(kind, i); !rendered[ref] && !i.Keep() && !i.Deleting() {
				out = append(out, Step{Ref: ref, Key: i.Key(), Action: ActionDelete})
			}
		}
		for _, i := range kind.Patched(p.item.UID()) {
			if ref := refOfItem(kind, i); !rendered[ref] && !i.Deleting() {
				nothing := &target{ref: ref, item: i, body: typeOf(ref)}
				p.identify(nothing)
				out = append(out, Step{Ref: ref, Key: i.Key(), Action: ActionUpdate, Body: nothing.body})
			}
		}
	}
	slices.SortFunc(out, func(a, b Step) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return out
}
