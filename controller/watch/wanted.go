package watch

import (
	"hash/maphash"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// wanted are those who want to know about changes at addresses. There are many addresses for each of them, so what is kept of one is a
// hash: should two ever have the same, somebody is told of what does not concern him.
type wanted struct {
	// one has the addresses that one resource looks at, which are nearly all.
	one map[uint64]*types.NamespacedName
	// many has those of several, such as a claim that all VMs share.
	many map[uint64]map[types.NamespacedName]struct{}
}

var seed = maphash.MakeSeed()

func newWanted() wanted {
	return wanted{one: map[uint64]*types.NamespacedName{}, many: map[uint64]map[types.NamespacedName]struct{}{}}
}

func (w wanted) add(a Address, who *types.NamespacedName) {
	at := maphash.String(seed, string(a))
	if all, ok := w.many[at]; ok {
		all[*who] = struct{}{}
		return
	}
	first := w.one[at]
	if first == nil || *first == *who {
		w.one[at] = who
		return
	}
	delete(w.one, at)
	w.many[at] = map[types.NamespacedName]struct{}{*first: {}, *who: {}}
}

func (w wanted) remove(a Address, who types.NamespacedName) {
	at := maphash.String(seed, string(a))
	if all, ok := w.many[at]; ok {
		if delete(all, who); len(all) == 0 {
			delete(w.many, at)
		}
		return
	}
	if first := w.one[at]; first != nil && *first == who {
		delete(w.one, at)
	}
}

// of are those who want to know about an address.
func (w wanted) of(a Address) []types.NamespacedName {
	at := maphash.String(seed, string(a))
	if first := w.one[at]; first != nil {
		return []types.NamespacedName{*first}
	}
	return slices.Collect(maps.Keys(w.many[at]))
}
