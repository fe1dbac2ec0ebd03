// Package plan says what templates, or custom resources, that are to come would change in a cluster: which objects, field by field, who
// needs a restart, and who is not valid any more. It only reads.
package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/change"
	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// Plan is what would change.
type Plan struct {
	// Resources are the custom resources with a change, a fault, or something in the way, by namespace and name.
	Resources []*Resource `json:"resources"`
	Summary   Summary     `json:"summary"`
}

// State is what would become of a custom resource.
type State string

// The states.
const (
	// Unchanged: nothing would be written.
	Unchanged State = "unchanged"
	// Changes: some objects would be written.
	Changes State = "changes"
	// Invalid: it would not be valid any more, so nothing of it would be touched.
	Invalid State = "invalid"
	// StaysInvalid: it is not valid, and would not be.
	StaysInvalid State = "stays-invalid"
)

// Resource is what would become of one custom resource.
type Resource struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// New says that it is not there yet.
	New bool `json:"new,omitempty"`
	// Restart is why it needs a restart; empty if it does not, or did before.
	Restart string `json:"restart,omitempty"`
	// Live says that something changes that a running VM follows.
	Live bool `json:"live,omitempty"`
	// Objects are those that would be written, or removed.
	Objects []*Object `json:"objects,omitempty"`
	// Conditions are those that would get another status.
	Conditions []Condition `json:"conditions,omitempty"`
	// Faults are why it is not valid, a line for each.
	Faults []string `json:"faults,omitempty"`

	uid string
	// word finds the name in texts.
	word *regexp.Regexp
}

// Object is what would become of an object.
type Object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name"`
	Action     controller.Action `json:"action"`
	// Drift says that somebody else has changed what was applied.
	Drift bool `json:"drift,omitempty"`
	// Problem is why it is blocked.
	Problem string `json:"problem,omitempty"`
	// Fields are those that would change.
	Fields []change.Field `json:"fields,omitempty"`

	// body is what would be sent, as JSON: of ten thousand VMs it is much.
	body watch.Packed
}

// Condition is a condition that would get another status.
type Condition struct {
	Type    string `json:"type"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Summary counts.
type Summary struct {
	// Kinds are how many of each kind were looked at.
	Kinds map[string]int `json:"kinds"`
	// Resources are all that were looked at; the others are how many of them have which state.
	Resources    int `json:"resources"`
	Unchanged    int `json:"unchanged"`
	Changes      int `json:"changes"`
	Invalid      int `json:"invalid"`
	StaysInvalid int `json:"staysInvalid"`
	// Restart and Live are how many need a restart, and how many change while they run.
	Restart int `json:"restart"`
	Live    int `json:"live"`
	// Create, Update, Delete and Blocked are numbers of objects.
	Create  int `json:"create"`
	Update  int `json:"update"`
	Delete  int `json:"delete"`
	Blocked int `json:"blocked"`
	// Drift is how many of those that change were changed by somebody else.
	Drift int `json:"drift"`
}

// Make plans for subjects. The candidate is the package that would be used, current the one that is: by it is known who is not valid now.
func Make(ctx context.Context, view *controller.View, current, candidate controller.Package, subjects []Subject) (*Plan, error) {
	m := &maker{view: view, current: current, candidate: candidate, packers: map[schema.GroupVersionKind]*watch.Packer{}}
	all, err := m.previews(ctx, subjects)
	if err != nil {
		return nil, err
	}
	if err := m.compare(ctx, all); err != nil {
		return nil, err
	}
	p := &Plan{Resources: []*Resource{}, Summary: Summary{Kinds: map[string]int{candidate.Set.Kind.Kind: len(all)}}}
	for _, r := range all {
		r.finish()
		p.Summary.add(r)
		if r.State != Unchanged {
			p.Resources = append(p.Resources, r)
		}
	}
	return p, nil
}

// Join makes one plan of those for several kinds, in their order.
func Join(plans ...*Plan) *Plan {
	out := &Plan{Resources: []*Resource{}, Summary: Summary{Kinds: map[string]int{}}}
	for _, p := range plans {
		out.Resources = append(out.Resources, p.Resources...)
		out.Summary.join(p.Summary)
	}
	return out
}

// maker makes a plan.
type maker struct {
	view               *controller.View
	current, candidate controller.Package

	mu sync.Mutex
	// packers are for the bodies of objects, by kind: those of a kind are alike.
	packers map[schema.GroupVersionKind]*watch.Packer
}

func (m *maker) packerOf(kind schema.GroupVersionKind) *watch.Packer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.packers[kind] == nil {
		m.packers[kind] = &watch.Packer{}
	}
	return m.packers[kind]
}

// previews renders all subjects, as many at a time as there are processors.
func (m *maker) previews(ctx context.Context, subjects []Subject) ([]*Resource, error) {
	out := make([]*Resource, len(subjects))
	errs := make([]error, len(subjects))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				out[i], errs[i] = m.preview(subjects[i])
			}
		})
	}
	for i := range subjects {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, errors.Join(errs...)
}

// preview renders one.
func (m *maker) preview(s Subject) (*Resource, error) {
	resource, err := s.Resource()
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: resource}
	r := &Resource{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), New: s.Item == nil, State: Unchanged, uid: string(object.GetUID())}
	preview, err := m.view.Preview(m.candidate, s.Item, resource)
	if err != nil {
		r.State, r.Faults = Invalid, lines(err)
		invalid, err := m.isInvalid(s)
		if invalid {
			r.State = StaysInvalid
		}
		return r, err
	}
	for _, step := range preview.Steps {
		if step.Action == controller.ActionNone {
			continue
		}
		apiVersion, kind := step.Ref.ToAPIVersionAndKind()
		o := &Object{APIVersion: apiVersion, Kind: kind, Namespace: step.Ref.Namespace, Name: step.Ref.Name, Action: step.Action, Drift: step.Drift, Problem: step.Problem}
		if step.Action == controller.ActionUpdate {
			body, err := json.Marshal(step.Body)
			if err != nil {
				return nil, fmt.Errorf("write %s: %w", step.Ref, err)
			}
			o.body = m.packerOf(step.Ref.GroupVersionKind).Pack(body)
		}
		r.Objects = append(r.Objects, o)
	}
	r.conditions(resource, preview.Result.Conditions)
	return r, nil
}

// isInvalid says whether what is there now is not valid either.
func (m *maker) isInvalid(s Subject) (bool, error) {
	if s.Item == nil {
		return false, nil
	}
	// This has just been rendered.
	if s.Manifest == nil && m.current.Revision == m.candidate.Revision {
		return true, nil
	}
	now, err := s.Item.Object()
	if err != nil {
		return false, err
	}
	_, err = m.view.Preview(m.current, s.Item, now)
	return err != nil, nil
}

// lines are the faults in an error.
func lines(err error) []string {
	if faults, ok := errors.AsType[render.Faults](err); ok {
		var out []string
		for _, f := range faults {
			out = append(out, f.String())
		}
		return out
	}
	return strings.Split(strings.TrimSpace(err.Error()), "\n")
}

// restart is the condition that says that a change takes one.
const restart = "RestartRequired"

// conditions finds those that would change, but for Ready: it would only say that the change is on its way.
func (r *Resource) conditions(resource map[string]any, now map[string]render.Condition) {
	before := liveConditions(resource)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		c, old := now[name], before[name]
		if name == restart && c.Status == "True" && (old.Status != "True" || old.Message != c.Message) {
			r.Restart = c.Message
		}
		if name == "Ready" || name == restart || c.Status == old.Status || old.Status == "" {
			continue
		}
		r.Conditions = append(r.Conditions, Condition{Type: name, Old: old.Status, New: c.Status, Reason: c.Reason, Message: c.Message})
	}
}

func liveConditions(resource map[string]any) map[string]render.Condition {
	out := map[string]render.Condition{}
	list, _, _ := unstructured.NestedSlice(resource, "status", "conditions")
	for _, item := range list {
		c, _ := item.(map[string]any)
		text := func(field string) string { s, _ := c[field].(string); return s }
		out[text("type")] = render.Condition{Status: text("status"), Reason: text("reason"), Message: text("message")}
	}
	return out
}

// compare reads the objects that would be updated, and finds the fields.
func (m *maker) compare(ctx context.Context, all []*Resource) error {
	objects := map[apiserver.Ref]*Object{}
	for _, r := range all {
		for _, o := range r.Objects {
			if o.Action == controller.ActionUpdate {
				objects[o.ref()] = o
			}
		}
	}
	var mu sync.Mutex
	found := map[apiserver.Ref]bool{}
	err := m.view.Live(ctx, slices.Collect(maps.Keys(objects)), func(ref apiserver.Ref, live *unstructured.Unstructured) error {
		mu.Lock()
		found[ref] = true
		mu.Unlock()
		return objects[ref].compare(live, m.candidate.Owner)
	})
	for ref, o := range objects {
		if !found[ref] {
			// It has gone in the meantime.
			o.Action = controller.ActionCreate
		}
		o.body = watch.Packed{}
	}
	return err
}

func (o *Object) compare(live *unstructured.Unstructured, owner string) error {
	text, err := o.body.Text()
	if err != nil {
		return fmt.Errorf("read %s: %w", o.ref(), err)
	}
	o.body = watch.Packed{}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("read %s: %w", o.ref(), err)
	}
	o.Fields, err = change.Fields(managedfields.Entry(live.GetManagedFields(), owner, ""), live.Object, body)
	return err
}

func (o *Object) ref() apiserver.Ref {
	return apiserver.Ref{GroupVersionKind: gvk(o.APIVersion, o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// livePath begins the paths of what a running VM follows, see docs/rendering.md.
const livePath = `data["config.json"].live.`

// finish says what state it has, once the fields are known.
func (r *Resource) finish() {
	if len(r.Faults) > 0 {
		return
	}
	for _, o := range r.Objects {
		r.Live = r.Live || o.Kind == "ConfigMap" && slices.ContainsFunc(o.Fields, func(f change.Field) bool { return strings.HasPrefix(f.Path, livePath) })
	}
	if len(r.Objects) > 0 || len(r.Conditions) > 0 || r.Restart != "" || r.New {
		r.State = Changes
	}
}

func (s *Summary) add(r *Resource) {
	s.Resources++
	switch r.State {
	case Unchanged:
		s.Unchanged++
	case Changes:
		s.Changes++
	case Invalid:
		s.Invalid++
	case StaysInvalid:
		s.StaysInvalid++
	}
	if r.Restart != "" {
		s.Restart++
	}
	if r.Live {
		s.Live++
	}
	for _, o := range r.Objects {
		if o.Drift {
			s.Drift++
		}
		switch o.Action {
		case controller.ActionCreate:
			s.Create++
		case controller.ActionUpdate:
			s.Update++
		case controller.ActionDelete:
			s.Delete++
		case controller.ActionBlocked:
			s.Blocked++
		case controller.ActionNone:
		}
	}
}

func (s *Summary) join(more Summary) {
	for kind, n := range more.Kinds {
		s.Kinds[kind] += n
	}
	s.Resources += more.Resources
	s.Unchanged += more.Unchanged
	s.Changes += more.Changes
	s.Invalid += more.Invalid
	s.StaysInvalid += more.StaysInvalid
	s.Restart += more.Restart
	s.Live += more.Live
	s.Create += more.Create
	s.Update += more.Update
	s.Delete += more.Delete
	s.Blocked += more.Blocked
	s.Drift += more.Drift
}
