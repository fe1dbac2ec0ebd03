package runner

import "sync"

// latest is a value of which only the newest is of interest. Setting it never waits for those who read it.
type latest[T any] struct {
	mu      sync.Mutex
	value   T
	changed chan struct{}
}

func newLatest[T any](value T) *latest[T] {
	return &latest[T]{value: value, changed: make(chan struct{})}
}

// get returns the value, and a channel that is closed when there is a newer one.
func (l *latest[T]) get() (T, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.changed
}

// update replaces the value by what f makes of it, unless f says that nothing changes.
func (l *latest[T]) update(f func(T) (T, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, changed := f(l.value)
	if !changed {
		return
	}
	l.value = value
	close(l.changed)
	l.changed = make(chan struct{})
}

// set replaces the value.
func (l *latest[T]) set(value T) {
	l.update(func(T) (T, bool) { return value, true })
}
