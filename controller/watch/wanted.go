package watch

import (
	"hash/maphash"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// wanted are those who want to know about changes at addresses. There are many addresses for each of them, so what is kept of one is a
// hash: should two ever have the same, somebody is told of what does not concern him.
type wanted struct {
	// one has the addresses that one resource looks at, which are nearly all.
	one map[uint64]wanter
	// many has those of several, such as a claim that all VMs share.
	many map[uint64]map[wanter]struct{}
}

type wanter = unique.Handle[types.NamespacedName]

var seed = maphash.MakeSeed()

func newWanted() wanted {
	return wanted{one: map[uint64]wanter{}, many: map[uint64]map[wanter]struct{}{}}
}

func (w wanted) add(a Address, who types.NamespacedName) {
	at, added := maphash.String(seed, string(a)), unique.Make(who)
	if all, ok := w.many[at]; ok {
		all[added] = struct{}{}
		return
	}
	first, ok := w.one[at]
	if !ok || first == added {
		w.one[at] = added
		return
	}
	delete(w.one, at)
	w.many[at] = map[wanter]struct{}{first: {}, added: {}}
}

func (w wanted) remove(a Address, who types.NamespacedName) {
	at, removed := maphash.String(seed, string(a)), unique.Make(who)
	if all, ok := w.many[at]; ok {
		if delete(all, removed); len(all) == 0 {
			delete(w.many, at)
		}
		return
	}
	if w.one[at] == removed {
		delete(w.one, at)
	}
}

// of are those who want to know about an address.
func (w wanted) of(a Address) []types.NamespacedName {
	at := maphash.String(seed, string(a))
	if first, ok := w.one[at]; ok {
		return []types.NamespacedName{first.Value()}
	}
	var out []types.NamespacedName
	for who := range w.many[at] {
		out = append(out, who.Value())
	}
	return out
}
