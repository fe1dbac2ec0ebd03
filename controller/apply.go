package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// target is a rendered object and what is there in its place.
type target struct {
	render.Object
	ref  apiserver.Ref
	kind *watch.Kind
	// item is the object as it is; nil if it is not there.
	item *watch.Item
	// body is what to send: what was rendered, and what the engine writes on it.
	body map[string]any
	hash string
}

// apply applies what differs, wave by wave. What fails in a wave does not keep the rest of the wave from being applied.
func (p *pass) apply(ctx context.Context) error {
	objects := slices.Clone(p.result.Objects)
	slices.SortStableFunc(objects, func(a, b render.Object) int { return a.Policy.Wave - b.Policy.Wave })
	var problems []*problem
	for i, o := range objects {
		if i > 0 && o.Policy.Wave != objects[i-1].Policy.Wave && len(problems) > 0 {
			break
		}
		t, err := p.target(o)
		if err == nil {
			err = p.applyOne(ctx, t)
		}
		if p.ending(err) {
			continue
		}
		if err != nil {
			problems = append(problems, problemOf(err).named(o.Policy.Reason))
		}
	}
	return joined(problems)
}

// ending says that nothing can be made any more because the namespace is being deleted, which is as it should be for a custom resource
// that is being deleted, too: it must not stay for that, or the namespace would.
func (p *pass) ending(err error) bool {
	return p.item.Deleting() && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// joined is one problem for all.
func joined(problems []*problem) error {
	if len(problems) == 0 {
		return nil
	}
	all := *problems[0]
	var messages []string
	for _, pr := range problems {
		messages = append(messages, pr.message)
		all.wait = all.wait && pr.wait
		all.stalled = all.stalled && pr.stalled
	}
	all.message = strings.Join(messages, "\n")
	return &all
}

// target finds what is there in the place of a rendered object.
func (p *pass) target(o render.Object) (*target, error) {
	t := &target{Object: o}
	ref, err := p.refOf(o)
	if err != nil {
		return nil, err
	}
	t.ref = ref
	if t.kind = p.watches.Kind(ref.GroupVersionKind); t.kind == nil {
		if _, err := p.api.Mapping(ref.GroupVersionKind); err != nil {
			return nil, writeProblem("apply", ref, err)
		}
		return nil, &problem{reason: reasonTemplateError, stalled: true, wait: true,
			message: fmt.Sprintf("objects.%s is of a kind that is not in makes: %s %s", o.Key, ref.GroupVersion(), ref.Kind)}
	}
	t.item = t.kind.Get(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if err := json.Unmarshal(o.JSON, &t.body); err != nil {
		return nil, fmt.Errorf("read rendered %s: %w", o.Key, err)
	}
	text, err := t.reasons(o.JSON)
	if err != nil {
		return nil, err
	}
	t.hash = hashOf(p.pkg.Owner, strconv.FormatBool(o.Policy.Prune), string(text))
	return t, nil
}

// reasons are the part of a rendered object that it is applied for: all but what follows the cluster.
func (t *target) reasons(rendered []byte) ([]byte, error) {
	if len(t.Policy.Follows) == 0 {
		return rendered, nil
	}
	text, err := json.Marshal(t.withoutFollowers())
	if err != nil {
		return nil, fmt.Errorf("read rendered %s: %w", t.Key, err)
	}
	return text, nil
}

// withoutFollowers is the body without the fields that follow the cluster.
func (t *target) withoutFollowers() map[string]any {
	out := t.body
	for _, path := range t.Policy.Follows {
		out = without(out, strings.Split(path, "."))
	}
	return out
}

// without is a struct without the field at a path. It shares what it can.
func without(m map[string]any, path []string) map[string]any {
	out := maps.Clone(m)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	if c, ok := m[path[0]].(map[string]any); ok {
		out[path[0]] = without(c, path[1:])
	}
	return out
}

// hashOf is a digest of texts.
func hashOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, " ")))
	return hex.EncodeToString(sum[:16])
}

// refOf names a rendered object. One without a namespace is in that of its custom resource.
func (p *pass) refOf(o render.Object) (apiserver.Ref, error) {
	if ref, ok := p.refs[o.Key]; ok {
		return ref, nil
	}
	var id struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(o.JSON, &id); err != nil {
		return apiserver.Ref{}, fmt.Errorf("read rendered %s: %w", o.Key, err)
	}
	ref := apiserver.Ref{GroupVersionKind: gvk(id.APIVersion, id.Kind), Namespace: id.Metadata.Namespace, Name: id.Metadata.Name}
	if kind := p.watches.Kind(ref.GroupVersionKind); kind != nil {
		switch {
		case !kind.Namespaced:
			ref.Namespace = ""
		case ref.Namespace == "":
			ref.Namespace = p.ref.Namespace
		}
	}
	p.refs[o.Key] = ref
	return ref, nil
}

func (p *pass) applyOne(ctx context.Context, t *target) error {
	if want, ok := p.result.Generate[t.Key]; ok {
		return p.certify(ctx, t, want)
	}
	switch t.Policy.Mode {
	case "hold":
		p.judge(t.ref, t.item)
		return nil
	case "create":
		return p.create(ctx, t)
	case "patch":
		return p.patch(ctx, t)
	case "delete":
		return p.remove(ctx, t)
	case "apply":
		if t.Policy.Subresource != "" {
			return p.patch(ctx, t)
		}
		return p.keep(ctx, t)
	}
	return &problem{reason: reasonTemplateError, message: fmt.Sprintf("policy.%s.mode %q is none", t.Key, t.Policy.Mode), stalled: true, wait: true}
}

// keep makes an object what was rendered, and leaves it alone if it is.
func (p *pass) keep(ctx context.Context, t *target) error {
	if err := p.mayHave(t); err != nil {
		return err
	}
	if p.isAnother(t) {
		return changedMeanwhile(t.ref, nil)
	}
	p.mark(t)
	if t.item != nil {
		if t.item.Deleting() {
			return &problem{reason: reasonWaitingForEnd, message: fmt.Sprintf("%s is being deleted; it is made anew when it is gone", t.ref), wait: true}
		}
		if covered, err := t.covered(); covered || err != nil {
			p.countSkip(t.ref)
			p.judge(t.ref, t.item)
			return err
		}
		if t.item.HasHash(t.hash) {
			if err := p.contested(t); err != nil {
				p.judge(t.ref, t.item)
				return err
			}
		}
		if t.item.ClientApplied() {
			if err := p.takeOver(ctx, t.ref); err != nil {
				return err
			}
		}
		// Should it be gone by now, it is not made by what was rendered while it was there.
		p.identify(t)
	}
	object, err := p.send(ctx, t)
	if err != nil {
		return err
	}
	return p.learn(t, object)
}

// covered says that an object still is what was applied: it has the hash of this render, and nobody has taken a field.
func (t *target) covered() (bool, error) {
	if !t.item.HasHash(t.hash) || t.item.Owner() != types.UID(ownerOf(t.body)) {
		return false, nil
	}
	fields := t.item.Fields()
	if len(fields) == 0 {
		return false, nil
	}
	missing, err := managedfields.Missing(fields, t.withoutFollowers())
	return missing == "" && err == nil, err
}

func ownerOf(body map[string]any) string {
	m, _ := body["metadata"].(map[string]any)
	labels, _ := m["labels"].(map[string]any)
	owner, _ := labels[watch.OwnerLabel].(string)
	return owner
}

// mayHave says whether an object that is there can be the custom resource's. What someone else made becomes its own by being
// applied, unless it already is something else's.
func (p *pass) mayHave(t *target) error {
	if t.item == nil || t.item.Owner() == p.item.UID() {
		return nil
	}
	if other, ok := p.resourceWith(t.item.Owner()); ok {
		p.waitFor(t.ref)
		return &problem{reason: reasonConflict, wait: true, message: fmt.Sprintf("%s belongs to %s", t.ref, other)}
	}
	if c := t.item.Controller(); c != "" && c != p.item.UID() && c != t.item.Owner() {
		p.waitFor(t.ref)
		return &problem{reason: reasonConflict, wait: true, message: fmt.Sprintf("%s belongs to the object with the UID %s; it is not changed", t.ref, c)}
	}
	return nil
}

// mark writes on an object whose it is, which of the templates' objects it is, and what was rendered.
func (p *pass) mark(t *target) {
	metadata := child(t.body, "metadata")
	metadata["name"] = t.ref.Name
	if t.ref.Namespace != "" {
		metadata["namespace"] = t.ref.Namespace
	}
	child(metadata, "labels")[watch.OwnerLabel] = string(p.item.UID())
	annotations := child(metadata, "annotations")
	annotations[watch.KeyAnnotation] = t.Key
	annotations[watch.HashAnnotation] = t.hash
	if !t.Policy.Prune {
		annotations[watch.KeepAnnotation] = "true"
	}
}

func child(m map[string]any, name string) map[string]any {
	c, ok := m[name].(map[string]any)
	if !ok {
		c = map[string]any{}
		m[name] = c
	}
	return c
}

// learn takes over what the API server has made of an object. If it has not taken all of it, that is said: sending it again
// would change nothing.
func (p *pass) learn(t *target, object client.Object) error {
	verb := "Created"
	if t.item != nil {
		verb = "Updated"
	}
	p.note(verb, t.ref)
	missing, err := managedfields.Missing(managedfields.Entry(object.GetManagedFields(), p.pkg.Owner, t.Policy.Subresource), t.body)
	item, learnErr := t.kind.Learn(object)
	if learnErr != nil {
		return learnErr
	}
	p.judge(t.ref, item)
	if err != nil {
		return err
	}
	if missing != "" {
		return &problem{reason: reasonApplyFailed, wait: true,
			message: fmt.Sprintf("%s: the cluster does not keep %s as it was applied%s", t.ref, strings.TrimPrefix(missing, "."), whoHas(object, p.pkg.Owner))}
	}
	return nil
}

// whoHas names the other managers of an object.
func whoHas(object client.Object, owner string) string {
	var names []string
	for _, e := range object.GetManagedFields() {
		if e.Manager != owner && !slices.Contains(names, e.Manager) {
			names = append(names, e.Manager)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it is also managed by " + strings.Join(names, ", ")
}

// create makes an object that is not there.
func (p *pass) create(ctx context.Context, t *target) error {
	if t.item != nil {
		p.countSkip(t.ref)
		p.judge(t.ref, t.item)
		return nil
	}
	p.mark(t)
	body, err := json.Marshal(t.body)
	if err != nil {
		return fmt.Errorf("write %s: %w", t.ref, err)
	}
	object, err := p.api.Create(ctx, t.ref, body, p.pkg.Owner, t.kind.Whole())
	p.countWrite("create", t.ref, err)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return writeProblem("create", t.ref, err)
	}
	p.note("Created", t.ref)
	item, err := t.kind.Learn(object)
	if err != nil {
		return err
	}
	p.judge(t.ref, item)
	return nil
}

// remove deletes an object: one of the custom resource's, or what one of those controls.
func (p *pass) remove(ctx context.Context, t *target) error {
	if t.item == nil || t.item.Deleting() {
		return nil
	}
	if t.item.Owner() != p.item.UID() && !p.controls(t.item.Controller()) {
		return &problem{reason: reasonConflict, wait: true, message: fmt.Sprintf("%s is to be deleted, but was not made for this resource", t.ref)}
	}
	return p.delete(ctx, t.ref, t.item)
}

// controls says whether a UID is that of an object that was made for the custom resource.
func (p *pass) controls(uid types.UID) bool {
	for _, kind := range p.watches.Kinds() {
		for _, i := range kind.Owned(p.item.UID()) {
			if i.UID() == uid {
				return true
			}
		}
	}
	return false
}

// resourceWith names the custom resource with a UID, if there is one.
func (k *kindController) resourceWith(uid types.UID) (string, bool) {
	ref, ok := k.resource(uid)
	return k.kind.Kind + " " + ref.String(), ok
}
