package controller

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// state is what is kept of a custom resource between passes: digests and addresses, not results.
type state struct {
	who *types.NamespacedName
	at  pattern
	// sent is what was last sent to subresources of objects.
	sent few[subresource, string]
	// others are objects that no label leads back from: those to patch, and the Secrets of certificates.
	others []apiserver.Ref
	// certificates is what is known of certificates, by key.
	certificates few[string, certificate]
	// contests are about objects that had to be set back.
	contests map[apiserver.Ref]*contest
	// complete says that the last pass has done all there was to do, with this input, these objects, this status.
	complete               bool
	input, objects, status digest
	// seen stands for the serials of all that there was when the last pass had nothing to do, with the templates' revision; it is zero if
	// that is not known.
	seen     digest
	revision string
	// wake is when to render again although nothing has changed; zero if never.
	wake time.Time
	// calm is until when the details of the status stay as they were written.
	calm time.Time
	// rendered says that the last pass could render.
	rendered bool
	metrics  map[string]float64
	// counted says that series are those of a render: entries of metrics of the kind. measured are the beginnings of what was observed.
	counted  bool
	series   map[string]render.Series
	measured map[string]string
	// ready is what the condition Ready says.
	ready unique.Handle[readiness]
	// released is the UID of the custom resource if nothing keeps it any more: the news of its end is on its way.
	released types.UID
}

// pass is one look at one custom resource.
type pass struct {
	*kindController
	pkg   *Package
	ref   types.NamespacedName
	item  *watch.Item
	state *state
	// resource is the custom resource, with its status.
	resource map[string]any
	result   *render.Result
	// refs name the rendered objects, by their keys.
	refs map[string]apiserver.Ref
	// at are the addresses of atOf.
	at   addresses
	atOf pattern
	// seen are the objects that the templates have seen.
	seen map[apiserver.Ref]*watch.Item
	// serials stand for those of all objects at the last look.
	serials digest
	// judged are the custom resource's objects as this pass has found or left them.
	judged map[apiserver.Ref]*watch.Item
	// looking says that the pass is a preview: nobody is told of changes for it.
	looking bool
	// did is what was written, for an Event.
	did []string
	// outcome is what became of the pass.
	outcome outcome
}

// maxRenders is how often a pass renders until the templates have seen all that they ask for.
const maxRenders = 5

// Reconcile makes a pass over a custom resource.
func (k *kindController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	k.changing.RLock()
	defer k.changing.RUnlock()
	p := k.load(request.NamespacedName)
	if p == nil {
		return reconcile.Result{}, nil
	}
	defer p.measure(time.Now())
	problem := k.unsynced()
	if problem == nil && p.untouched() {
		p.outcome = outcomeUnchanged
		return p.rest(), nil
	}
	if err := p.read(); err != nil {
		return reconcile.Result{}, err
	}
	if problem != nil {
		p.state.complete = false
		return p.report(ctx, problem)
	}
	unchanged, err := p.unchanged()
	if err != nil {
		return reconcile.Result{}, err
	}
	if unchanged {
		p.outcome = outcomeUnchanged
		return p.rest(), nil
	}
	p.state.complete = false
	if err := p.render(); err != nil {
		return p.report(ctx, p.abandon(ctx, err))
	}
	if err := p.finalizer(ctx); err != nil {
		return p.report(ctx, err)
	}
	if err := p.reserve(ctx); err != nil {
		return p.report(ctx, err)
	}
	if p.result.Hold {
		return p.report(ctx, nil)
	}
	if err := p.apply(ctx); err != nil {
		return p.report(ctx, err)
	}
	if err := p.prune(ctx); err != nil {
		return p.report(ctx, err)
	}
	if gone, err := p.release(ctx); gone || err != nil {
		return p.report(ctx, err)
	}
	return p.report(ctx, nil)
}

// load finds the custom resource. There is no pass if it is gone, or about to be.
func (k *kindController) load(ref types.NamespacedName) *pass {
	kind := k.watches.Kind(k.kind)
	if kind == nil {
		return nil
	}
	item := kind.Get(ref)
	k.mu.Lock()
	st := k.states[ref]
	if item != nil && st == nil {
		st = &state{who: &types.NamespacedName{Namespace: once(ref.Namespace), Name: strings.Clone(ref.Name)}}
		k.states[*st.who] = st
	}
	if item == nil {
		delete(k.states, ref)
	}
	k.mu.Unlock()
	if item == nil {
		if st != nil {
			k.want(st.who, st.at, pattern{})
			k.wantOthers(st.who, st.others, nil)
		}
		return nil
	}
	if st.released != "" && st.released == item.UID() {
		return nil
	}
	return &pass{kindController: k, pkg: k.pkg.Load(), ref: ref, item: item, state: st, outcome: outcomeFailed}
}

// read makes ready for a pass that is more than a look.
func (p *pass) read() (err error) {
	p.judged, p.refs = map[apiserver.Ref]*watch.Item{}, map[string]apiserver.Ref{}
	p.resource, err = p.item.Object()
	return err
}

// unsynced is why what is in the cluster is not all known yet, or may not be known any more; nil if it is.
func (k *kindController) unsynced() error {
	for _, kind := range k.watches.Kinds() {
		err := kind.Problem()
		if kind.Synced() && !apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return &problem{reason: reasonWaitingForWatch, message: fmt.Sprintf("cannot watch objects of the kind %s: %v", kind.Kind, err), wait: true, err: err}
		}
		return errNotSynced
	}
	return nil
}

// errNotSynced says that a watch has not begun yet. Its beginning brings the next pass.
var errNotSynced = errors.New("what is in the cluster is not known yet")

// due says that a pass has to be made even if nothing has changed.
func (p *pass) due() bool {
	s := p.state
	return !s.complete || !s.wake.IsZero() && !time.Now().Before(s.wake)
}

// untouched says that there was nothing to do, and that there has not been a change of anything since. It costs next to nothing: so do
// passes without a reason.
func (p *pass) untouched() bool {
	if p.due() || p.state.seen == (digest{}) || p.state.revision != p.pkg.Revision {
		return false
	}
	p.look()
	return p.state.seen == p.serials
}

// look finds what the templates look at, and notes the serials of all objects that concern the custom resource: what changes from here
// on is for the next pass.
func (p *pass) look() found {
	f := p.find(p.pkg.Set, p.addresses())
	serials := []uint64{p.item.Serial()}
	for _, items := range f {
		for _, i := range items {
			serials = append(serials, i.Serial())
		}
	}
	p.eachMade(func(_ apiserver.Ref, i *watch.Item) { serials = append(serials, i.Serial()) })
	slices.Sort(serials)
	var text []byte
	// One of the others may be made here, too, which is known after the first render.
	for _, s := range slices.Compact(serials) {
		text = binary.LittleEndian.AppendUint64(text, s)
	}
	p.serials = digestOf(text)
	return f
}

// rested notes that a pass over all that was there at the last look has nothing left to do. After one that has written something that is
// not known: what it has made may be gone again, and all as it was at that look.
func (p *pass) rested(did []string) {
	p.state.seen, p.state.revision = p.serials, p.pkg.Revision
	if len(did) > 0 {
		p.state.seen = digest{}
	}
}

// unchanged says that the last pass has left nothing to do, and that nothing has changed since that matters.
func (p *pass) unchanged() (bool, error) {
	s := p.state
	if p.due() {
		return false, nil
	}
	input, err := p.inputDigest(p.look())
	if err != nil || input != s.input || p.objectsDigest() != s.objects {
		return false, err
	}
	status, err := p.statusDigest()
	if err != nil || status != s.status {
		return false, err
	}
	p.rested(nil)
	return true, nil
}

// rest is when the next pass comes without a reason.
func (p *pass) rest() reconcile.Result {
	after := nextTurn(time.Now(), p.options.Resync, p.item.UID())
	if w := time.Until(p.state.wake); !p.state.wake.IsZero() && (after == 0 || w < after) {
		after = max(w, time.Millisecond)
	}
	return reconcile.Result{RequeueAfter: after, Priority: eventually.Priority}
}

// nextTurn is how long it is until the next pass of a custom resource that comes only because an interval has passed. Each has a
// moment of its own in the interval, so that a manager that has just looked at all of them does not do so again all at once.
func nextTurn(now time.Time, interval time.Duration, uid types.UID) time.Duration {
	if interval <= 0 {
		return 0
	}
	h := fnv.New64a()
	// It never fails.
	_, _ = h.Write([]byte(uid))
	turn := time.Duration(h.Sum64() % uint64(interval))
	since := (time.Duration(now.UnixNano()%int64(interval)) - turn + interval) % interval
	return interval - since
}

// input is what to render.
func (p *pass) input(observed map[string][]map[string]any) render.Input {
	e := &render.Engine{ResourceVersion: p.item.ResourceVersion(), Generation: p.generation(), Random: randomText()}
	if p.looking {
		e.Random = placeholder
	}
	if step := p.pkg.Set.Step; step > 0 {
		e.Now = time.Now().UTC().Truncate(step).Format(time.RFC3339)
	}
	return render.Input{Document: render.Document{Object: p.resource}, Observed: observed, Engine: e}
}

// generation is the custom resource's metadata.generation.
func (p *pass) generation() int64 {
	metadata, _ := p.resource["metadata"].(map[string]any)
	g, _ := metadata["generation"].(int64)
	return g
}

// randomText has 128 bits.
func randomText() string {
	b := make([]byte, 16)
	// It never fails.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// render renders with what the last pass has seen, and again if the templates want to see something else.
func (p *pass) render() error {
	p.state.rendered = false
	guessed := p.guess()
	for range maxRenders {
		f := p.look()
		observed, err := f.gather(p.pkg.Set)
		if err != nil {
			return err
		}
		if p.state.input, err = p.inputDigest(f); err != nil {
			return err
		}
		ready := p.turnToRender()
		start := time.Now()
		r, err := p.pkg.Set.Render(p.input(observed))
		p.countRender(start)
		ready()
		if err != nil && guessed {
			// The guess may have been wrong, and what was there another's.
			p.lookAt(pattern{})
			guessed = false
			continue
		}
		if err != nil {
			return renderProblem(err)
		}
		guessed = false
		if at := p.addressesOf(p.ref.Namespace, r.Observe); !at.equal(p.addresses()) {
			p.lookAt(at.pattern(p.ref))
			seen := p.state.input
			f = p.look()
			if p.state.input, err = p.inputDigest(f); err != nil {
				return err
			}
			// If the same is there, the templates have seen it.
			if p.state.input != seen {
				continue
			}
		}
		p.exemplify()
		p.result, p.state.rendered, p.seen = r, true, f.byRef(p.pkg.Set)
		p.state.wake = time.Time{}
		if step := p.pkg.Set.Step; step > 0 {
			p.state.wake = time.Now().Truncate(step).Add(step)
		}
		if r.Wake > 0 {
			p.wakeAt(time.Now().Add(r.Wake))
		}
		p.setMetrics(r.Metrics)
		if !p.looking {
			p.setSeries(r.Series)
		}
		return p.findOthers()
	}
	return &problem{reason: reasonTemplateError, message: fmt.Sprintf("the templates want to see something else after each of %d renders", maxRenders), wait: true}
}

// report writes the status, and says when the next pass comes.
func (p *pass) report(ctx context.Context, err error) (reconcile.Result, error) {
	if errors.Is(err, errNotSynced) {
		p.outcome = outcomeWaiting
		return reconcile.Result{}, nil
	}
	if errors.Is(err, errStale) {
		return p.again(err), nil
	}
	did := p.did
	p.eventOfWrites()
	if p.resource == nil {
		p.outcome = outcomeDone
		return reconcile.Result{}, nil
	}
	if statusErr := p.writeStatus(ctx, err); errors.Is(statusErr, errStale) {
		return p.again(statusErr), nil
	} else if statusErr != nil {
		return reconcile.Result{}, errors.Join(err, fmt.Errorf("write status: %w", statusErr))
	}
	pr := problemOf(err)
	if err == nil {
		p.outcome = outcomeDone
		p.state.objects = p.judgedDigest()
		p.state.complete = true
		p.rested(did)
		next := p.rest()
		p.logEnd(did, next)
		return next, nil
	}
	if pr.wait {
		// Only a change helps, and that brings a pass; but not every change can be seen, such as one of permissions.
		p.outcome = outcomeWaiting
		p.logger().Info("waiting for a change", "reason", pr.reason, "message", pr.message)
		return reconcile.Result{RequeueAfter: slowly}, nil
	}
	return reconcile.Result{}, err
}

// again is a pass soon, over the custom resource as it is by then.
func (p *pass) again(why error) reconcile.Result {
	p.outcome = outcomeStale
	p.logger().V(1).Info("looking again", "err", why.Error())
	return reconcile.Result{RequeueAfter: soon}
}

// errStale says that the custom resource, or an object of its, is not what this pass has seen any more. Its change brings the next pass.
var errStale = errors.New("there has been a change since the look")

// soon is when to look again should the news of a change be late.
const soon = time.Second

// slowly is how often something is tried again that a change in the cluster would have to cure.
const slowly = 2 * time.Minute
