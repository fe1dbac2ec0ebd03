package controller

import (
	"encoding/json"
	"maps"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// addresses say where the lookups of a custom resource look, by the lookup's key. A lookup whose "when" is false has none.
type addresses map[string][]watch.Address

// pattern is addresses with marks in the place of the custom resource's namespace and name. Those of like custom resources are one text
// in memory: there may be many of them. The zero pattern is that of one that was never rendered.
type pattern unique.Handle[string]

// noWhere is a pattern without an address.
var noWhere = addresses{}.pattern(types.NamespacedName{})

func (a addresses) pattern(whose types.NamespacedName) pattern {
	marked := make(addresses, len(a))
	for key, list := range a {
		for _, at := range list {
			marked[key] = append(marked[key], at.Mark(whose))
		}
	}
	// Maps and lists of text can be written, and read again.
	data, _ := json.Marshal(marked)
	return pattern(unique.Make(string(data)))
}

// of are the addresses of one custom resource.
func (p pattern) of(whose types.NamespacedName) addresses { return p.marked().of(whose) }

// marked are the addresses with the marks.
func (p pattern) marked() addresses {
	if p == (pattern{}) {
		return nil
	}
	var out addresses
	_ = json.Unmarshal([]byte(unique.Handle[string](p).Value()), &out)
	return out
}

// of puts somebody's namespace and name in the place of the marks.
func (a addresses) of(whose types.NamespacedName) addresses {
	if a == nil {
		return nil
	}
	out := make(addresses, len(a))
	for key, list := range a {
		at := make([]watch.Address, len(list))
		for i, marked := range list {
			at[i] = marked.For(whose)
		}
		slices.Sort(at)
		out[key] = at
	}
	return out
}

// readPattern is a pattern that was read.
type readPattern struct {
	pattern
	marked addresses
}

// readPattern is marked of a pattern, which most often is the same as the last one.
func (k *kindController) readPattern(p pattern) addresses {
	if last := k.lastRead.Load(); last != nil && last.pattern == p {
		return last.marked
	}
	now := &readPattern{p, p.marked()}
	k.lastRead.Store(now)
	return now.marked
}

// addressesOf translates lookups.
func (k *kindController) addressesOf(namespace string, lookups map[string]render.Lookup) addresses {
	out := addresses{}
	for key, l := range lookups {
		kind := k.watches.Kind(gvk(l.APIVersion, l.Kind))
		if kind == nil || !l.When {
			continue
		}
		switch {
		case l.Name != "":
			out[key] = []watch.Address{kind.ByName(namespace, l.Name)}
		case l.Names != nil:
			for _, n := range l.Names {
				out[key] = append(out[key], kind.ByName(namespace, n))
			}
			slices.Sort(out[key])
			out[key] = slices.Compact(out[key])
		case len(l.Selector) > 0:
			out[key] = []watch.Address{kind.ByLabels(namespace, l.Selector)}
		}
	}
	return out
}

func (a addresses) equal(o addresses) bool {
	return maps.EqualFunc(a, o, slices.Equal[[]watch.Address])
}

// want makes the custom resource known to what is at its addresses, and unknown to what was at the last ones.
func (k *kindController) want(who *types.NamespacedName, last, now pattern) {
	watches := k.pkg.Load().Set.Watches
	each := func(p pattern, do func(*watch.Kind, watch.Address)) {
		for key, list := range k.readPattern(p).of(*who) {
			l := watches[key]
			if kind := k.watches.Kind(gvk(l.APIVersion, l.Kind)); kind != nil {
				for _, at := range list {
					do(kind, at)
				}
			}
		}
	}
	each(last, func(kind *watch.Kind, at watch.Address) { kind.Unwant(at, *who) })
	each(now, func(kind *watch.Kind, at watch.Address) { kind.Want(at, who) })
}

// found are objects that were found for a custom resource at one moment, by the key of their lookup.
type found map[string][]*watch.Item

// find returns what is at the addresses.
func (k *kindController) find(set *render.Set, a addresses) found {
	out := found{}
	for key, list := range a {
		l := set.Watches[key]
		kind := k.watches.Kind(gvk(l.APIVersion, l.Kind))
		if kind == nil {
			continue
		}
		for _, at := range list {
			out[key] = append(out[key], kind.Find(at)...)
		}
	}
	return out
}

// byRef are the objects by what they are called.
func (f found) byRef(set *render.Set) map[apiserver.Ref]*watch.Item {
	out := map[apiserver.Ref]*watch.Item{}
	for key, items := range f {
		l := set.Watches[key]
		for _, i := range items {
			out[apiserver.Ref{GroupVersionKind: gvk(l.APIVersion, l.Kind), Namespace: i.Namespace(), Name: i.Name()}] = i
		}
	}
	return out
}

// gather returns what was found, as the templates asked for it. A lookup that found nothing is left out, as it is
// for templates that are rendered without a cluster.
func (f found) gather(set *render.Set) (map[string][]map[string]any, error) {
	out := map[string][]map[string]any{}
	for key, items := range f {
		for _, i := range items {
			object, err := i.Object()
			if err != nil {
				return nil, err
			}
			out[key] = append(out[key], set.Watches[key].Project(object))
		}
	}
	return out, nil
}

// addresses are where the pass looks.
func (p *pass) addresses() addresses {
	if p.at == nil || p.atOf != p.state.at {
		p.at, p.atOf = p.readPattern(p.state.at).of(p.ref), p.state.at
	}
	return p.at
}

// lookAt makes a pass look elsewhere from now on.
func (p *pass) lookAt(at pattern) {
	if !p.looking {
		p.want(p.state.who, p.state.at, at)
	}
	p.state.at = at
}

// exemplify makes the custom resource the one that the next new one is taken to be like.
func (p *pass) exemplify() {
	at := p.state.at
	p.example.Store(&at)
}

// guess makes a custom resource that was never rendered look where the last one that was would look, had it this name: where to look is
// known after a render only, and then what was found may take another one. It says whether it did. A wrong guess costs no more than
// none.
func (p *pass) guess() bool {
	e := p.example.Load()
	if p.state.at != (pattern{}) || e == nil {
		return false
	}
	p.lookAt(*e)
	return true
}
