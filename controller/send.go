package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
)

// send applies an object. Fields that someone has changed by hand are taken back; those that another one applies, and so
// means to keep, are not.
func (p *pass) send(ctx context.Context, t *target) (client.Object, error) {
	body, err := json.Marshal(t.body)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", t.ref, err)
	}
	how := apiserver.Apply{Manager: p.pkg.Owner, Subresource: t.Policy.Subresource, Whole: t.kind.Whole()}
	object, err := p.api.Apply(ctx, t.ref, body, how)
	p.countWrite("apply", t.ref, err)
	if who := appliers(err); len(who) > 0 {
		return nil, &problem{reason: reasonConflict, wait: true, err: err,
			message: fmt.Sprintf("%s: %s; it is not taken from who applies it", t.ref, strings.Join(who, ", "))}
	}
	if isFieldConflict(err) && t.item == nil {
		return nil, &problem{reason: reasonConflict, err: err, message: fmt.Sprintf("%s has just been made by someone else", t.ref)}
	}
	switch {
	case isFieldConflict(err):
		object, err = p.force(ctx, t, how, holders(err))
	case apierrors.IsConflict(err):
		// It has another UID than the one that is named.
		return nil, changedMeanwhile(t.ref, err)
	}
	// A list whose keys someone has changed, such as the ports of a Service, cannot be merged any more.
	if apierrors.IsInvalid(err) && t.item != nil && t.item.HasHash(t.hash) {
		object, err = p.replace(ctx, t)
	}
	if errors.Is(err, errStale) {
		return nil, err
	}
	if err != nil {
		return nil, writeProblem("apply", t.ref, err)
	}
	return object, nil
}

// force takes fields of an object back from those who have changed them. What has been changed since the render is not: it could be what
// the templates would render now, such as a volume that has just been plugged in.
func (p *pass) force(ctx context.Context, t *target, how apiserver.Apply, from []string) (client.Object, error) {
	if p.isNews(t) {
		return nil, changedMeanwhile(t.ref, nil)
	}
	body, err := t.bodyFor(t.item.ResourceVersion())
	if err != nil {
		return nil, err
	}
	p.setBack(t, from)
	how.Force = true
	object, err := p.api.Apply(ctx, t.ref, body, how)
	p.countWrite("apply", t.ref, err)
	if apierrors.IsConflict(err) {
		return nil, changedMeanwhile(t.ref, err)
	}
	return object, err
}

// isNews says that the templates have seen an object, and would see something else in it by now.
func (p *pass) isNews(t *target) bool {
	seen := p.seen[t.ref]
	return seen != nil && seen.Sum() != t.item.Sum()
}

// isAnother says that the object that the templates have seen is gone, or another one has its name. What was rendered may not be true of
// that: a claim that has content is made by its label.
func (p *pass) isAnother(t *target) bool {
	seen := p.seen[t.ref]
	return seen != nil && (t.item == nil || t.item.UID() != seen.UID())
}

// changedMeanwhile has the pass made again, with what an object is by then.
func changedMeanwhile(ref apiserver.Ref, err error) error {
	return &problem{reason: reasonApplyFailed, message: fmt.Sprintf("%s has just been changed; it is looked at again", ref), err: errors.Join(errStale, err)}
}

// bodyFor is what to send for an object that still has a resourceVersion.
func (t *target) bodyFor(version string) ([]byte, error) {
	full, metadata := maps.Clone(t.body), maps.Clone(child(t.body, "metadata"))
	metadata["resourceVersion"], metadata["uid"] = version, string(t.item.UID())
	full["metadata"] = metadata
	body, err := json.Marshal(full)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", t.ref, err)
	}
	return body, nil
}

// replace puts what was rendered in the place of an object, and then applies it, so that its fields are ours again.
func (p *pass) replace(ctx context.Context, t *target) (client.Object, error) {
	if p.isNews(t) {
		return nil, changedMeanwhile(t.ref, nil)
	}
	body, err := t.bodyFor(t.item.ResourceVersion())
	if err != nil {
		return nil, err
	}
	replaced, err := p.api.Replace(ctx, t.ref, body, p.pkg.Owner)
	p.countWrite("update", t.ref, err)
	if apierrors.IsConflict(err) {
		return nil, changedMeanwhile(t.ref, err)
	}
	if err != nil {
		return nil, err
	}
	if body, err = t.bodyFor(replaced.ResourceVersion); err != nil {
		return nil, err
	}
	object, err := p.api.Apply(ctx, t.ref, body, apiserver.Apply{Manager: p.pkg.Owner, Force: true, Whole: t.kind.Whole()})
	p.countWrite("apply", t.ref, err)
	if apierrors.IsConflict(err) {
		return nil, changedMeanwhile(t.ref, err)
	}
	return object, err
}

// takeOver makes the fields that kubectl apply has set those of server-side apply by us. Otherwise they would stay for ever
// as kubectl's, also those that are not rendered any more.
func (p *pass) takeOver(ctx context.Context, ref apiserver.Ref) error {
	object, err := p.api.Get(ctx, ref)
	if err != nil {
		return writeProblem("take over", ref, err)
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(object, sets.New("kubectl-client-side-apply"), p.pkg.Owner)
	if err != nil {
		return fmt.Errorf("take over %s: %w", ref, err)
	}
	if len(patch) == 0 {
		return nil
	}
	_, err = p.api.Patch(ctx, ref, patch, p.pkg.Owner)
	p.countWrite("patch", ref, err)
	if err != nil {
		return writeProblem("take over", ref, err)
	}
	p.note("TakenOver", ref)
	return nil
}

func isFieldConflict(err error) bool { return len(conflicts(err)) > 0 }

// conflicts are the fields that others have.
func conflicts(err error) []metav1.StatusCause {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsConflict(err) || status.ErrStatus.Details == nil {
		return nil
	}
	var out []metav1.StatusCause
	for _, c := range status.ErrStatus.Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			out = append(out, c)
		}
	}
	return out
}

// holders are the fields that others have, with their managers.
func holders(err error) []string {
	var out []string
	for _, c := range conflicts(err) {
		out = append(out, holder(c))
	}
	return out
}

// when is the end of the API server's message about a manager: conflict with "kubectl-edit" using apps/v1 at 2026-01-01T00:00:00Z.
// The time would change a condition each time.
var when = regexp.MustCompile(` at [-0-9T:Z]+$`)

func holder(c metav1.StatusCause) string {
	return strings.TrimPrefix(c.Field, ".") + " is in " + when.ReplaceAllString(c.Message, "")
}

// byUpdate is in the API server's message about a manager that has not applied the field, but updated it:
// conflict with "kubectl-edit" using apps/v1 at 2026-01-01T00:00:00Z.
var byUpdate = regexp.MustCompile(`^conflict with "[^"]*"( with subresource "[^"]*")? using `)

// appliers are the fields that others apply, with their managers.
func appliers(err error) []string {
	var out []string
	for _, c := range conflicts(err) {
		if !byUpdate.MatchString(c.Message) {
			out = append(out, holder(c))
		}
	}
	return out
}
