package watch

import (
	"slices"
	"strings"
)

// together is how many items are in one piece of memory.
const together = 256

// compact moves the items together, if enough of them have come since the last time. They come one by one, amid all that passes take for
// a moment, and Go does not move what stays: without this most of the memory that a burst of work took is kept, as there are some items
// in each piece of it. It takes milliseconds for ten thousand items. Those who have an item keep it. It says whether it did.
func (k *Kind) compact() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Of an item that has gone the place stays empty: at most one place in four is.
	if k.loose*4 < k.items.len() {
		return false
	}
	k.loose = 0
	all := slices.AppendSeq(make([]*Item, 0, k.items.len()), k.items.all)
	k.items, k.byOwner, k.byPatcher = items{}, newIndex(), newIndex()
	for keys := range k.selections {
		k.selections[keys] = newIndex()
	}
	for some := range slices.Chunk(all, together) {
		moved := make([]Item, len(some))
		var text strings.Builder
		for n, i := range some {
			moved[n] = *i
			text.WriteString(i.name)
			text.WriteString(i.content)
		}
		rest := strings.Clone(text.String())
		for n := range moved {
			i := &moved[n]
			i.name, rest = rest[:len(i.name)], rest[len(i.name):]
			i.content, rest = rest[:len(i.content)], rest[len(i.content):]
			k.items.set(i)
			k.link(i)
		}
	}
	return true
}

// Compact moves together what is kept of each kind, if much of it has changed, and says whether it did. It is best called when there is
// nothing else to do.
func (s *Set) Compact() bool {
	moved := false
	for _, k := range s.Kinds() {
		moved = k.compact() || moved
	}
	return moved
}
