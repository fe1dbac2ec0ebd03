package controller

// few is a map of hardly more than one entry, of which there are as many as custom resources: a map takes the room of eight at once.
type few[K comparable, V any] []entry[K, V]

type entry[K comparable, V any] struct {
	key   K
	value V
}

func (f few[K, V]) get(key K) (value V, ok bool) {
	for _, e := range f {
		if e.key == key {
			return e.value, true
		}
	}
	return value, false
}

func (f *few[K, V]) set(key K, value V) {
	f.delete(func(k K) bool { return k == key })
	*f = append(*f, entry[K, V]{key, value})
}

// delete removes what is true of.
func (f *few[K, V]) delete(which func(K) bool) {
	var left few[K, V]
	for _, e := range *f {
		if !which(e.key) {
			left = append(left, e)
		}
	}
	*f = left
}
