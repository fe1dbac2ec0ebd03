package watch

import "k8s.io/apimachinery/pkg/types"

// items are the objects of a kind, by namespace and name.
type items map[string]map[string]*Item

func (m items) get(ref types.NamespacedName) *Item { return m[ref.Namespace][ref.Name] }

func (m items) set(i *Item) {
	namespace := m[i.Namespace()]
	if namespace == nil {
		namespace = map[string]*Item{}
		m[i.Namespace()] = namespace
	}
	// A name that is there already would stay the one of the item before, and keep its text in memory.
	delete(namespace, i.name)
	namespace[i.name] = i
}

func (m items) delete(ref types.NamespacedName) {
	if delete(m[ref.Namespace], ref.Name); len(m[ref.Namespace]) == 0 {
		delete(m, ref.Namespace)
	}
}

// all calls do with each item.
func (m items) all(yield func(*Item) bool) {
	for _, namespace := range m {
		for _, i := range namespace {
			if !yield(i) {
				return
			}
		}
	}
}

func (m items) len() int {
	n := 0
	for _, namespace := range m {
		n += len(namespace)
	}
	return n
}
