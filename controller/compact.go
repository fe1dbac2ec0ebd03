package controller

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Compact moves together what the engine keeps, amid which work has left much free memory that Go cannot give back. It is best called
// when there is nothing else to do.
func (e *Engine) Compact() {
	e.mu.Lock()
	running := slices.Collect(maps.Values(e.running))
	e.mu.Unlock()
	for _, k := range running {
		k.compact()
	}
}

func (k *kindController) compact() {
	moved := k.watches.Compact()
	k.mu.Lock()
	k.scattered = k.scattered || moved
	scattered := k.scattered
	k.mu.Unlock()
	// A pass has a state while it runs: the next time, then.
	if !scattered || !k.changing.TryLock() {
		return
	}
	defer k.changing.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scattered = false
	states := make(map[types.NamespacedName]*state, len(k.states))
	for _, s := range k.states {
		states[*s.who] = s.clone()
	}
	k.states = states
	byUID := make(map[types.UID]types.NamespacedName, len(k.byUID))
	for uid, ref := range k.byUID {
		if s := states[ref]; s != nil {
			ref = *s.who
		}
		byUID[types.UID(strings.Clone(string(uid)))] = ref
	}
	k.byUID = byUID
}

// clone is the same state in memory of its own: Go fills one piece of it after the other with what is made in a row.
func (s *state) clone() *state {
	out := *s
	out.others = slices.Clone(s.others)
	for n := range out.others {
		ref := &out.others[n]
		ref.GroupVersionKind, ref.Namespace, ref.Name = once(ref.GroupVersionKind), once(ref.Namespace), strings.Clone(ref.Name)
	}
	out.certificates = slices.Clone(s.certificates)
	for n := range out.certificates {
		c := &out.certificates[n]
		c.key, c.value.uid, c.value.resourceVersion = once(c.key), types.UID(strings.Clone(string(c.value.uid))), strings.Clone(c.value.resourceVersion)
	}
	out.sent = slices.Clone(s.sent)
	for n := range out.sent {
		sent := &out.sent[n]
		sent.key.GroupVersionKind, sent.key.Namespace, sent.key.Name = once(sent.key.GroupVersionKind), once(sent.key.Namespace), strings.Clone(sent.key.Name)
		sent.key.name, sent.value = once(sent.key.name), strings.Clone(sent.value)
	}
	return &out
}

// once is a value that many have, once in memory.
func once[T comparable](value T) T { return unique.Make(value).Value() }
