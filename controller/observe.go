package controller

import (
	"encoding/json"
	"maps"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/types"

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
func (p pattern) of(whose types.NamespacedName) addresses {
	if p == (pattern{}) {
		return nil
	}
	var out addresses
	_ = json.Unmarshal([]byte(unique.Handle[string](p).Value()), &out)
	for _, list := range out {
		for i, at := range list {
			list[i] = at.For(whose)
		}
		slices.Sort(list)
	}
	return out
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
func (k *kindController) want(who types.NamespacedName, last, now pattern) {
	watches := k.pkg.Load().Set.Watches
	each := func(p pattern, do func(*watch.Kind, watch.Address)) {
		for key, list := range p.of(who) {
			l := watches[key]
			if kind := k.watches.Kind(gvk(l.APIVersion, l.Kind)); kind != nil {
				for _, at := range list {
					do(kind, at)
				}
			}
		}
	}
	each(last, func(kind *watch.Kind, at watch.Address) { kind.Unwant(at, who) })
	each(now, func(kind *watch.Kind, at watch.Address) { kind.Want(at, who) })
}

// gather returns what is at the addresses, as the templates asked for it. A lookup that found nothing is left out, as it is
// for templates that are rendered without a cluster.
func (k *kindController) gather(set *render.Set, a addresses) (map[string][]map[string]any, error) {
	out := map[string][]map[string]any{}
	var failed error
	k.eachFound(set, a, func(key string, l render.Lookup, item *watch.Item) {
		object, err := item.Object()
		if err != nil {
			failed = err
			return
		}
		out[key] = append(out[key], l.Project(object))
	})
	return out, failed
}

// eachFound goes through what is at the addresses.
func (k *kindController) eachFound(set *render.Set, a addresses, do func(string, render.Lookup, *watch.Item)) {
	for key, list := range a {
		l := set.Watches[key]
		kind := k.watches.Kind(gvk(l.APIVersion, l.Kind))
		if kind == nil {
			continue
		}
		for _, at := range list {
			for _, item := range kind.Find(at) {
				do(key, l, item)
			}
		}
	}
}

// lookAt makes a pass look elsewhere from now on.
func (p *pass) lookAt(at pattern) {
	if !p.looking {
		p.want(p.ref, p.state.at, at)
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
