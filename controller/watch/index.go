package watch

import "slices"

// index has items by a UID, or by the digest of some text. Of most kinds there is one item for each, and no list is kept for it.
type index struct {
	one  map[id]*Item
	many map[id][]*Item
}

func newIndex() index { return index{one: map[id]*Item{}, many: map[id][]*Item{}} }

// of are the items with an id.
func (x index) of(at id) []*Item {
	if i := x.one[at]; i != nil {
		return []*Item{i}
	}
	return slices.Clone(x.many[at])
}

// add adds an item, which is not there.
func (x index) add(at id, i *Item) {
	if at == (id{}) {
		return
	}
	first, second := x.one[at], x.many[at]
	switch {
	case first == nil && second == nil:
		x.one[at] = i
	case first != nil:
		delete(x.one, at)
		x.many[at] = []*Item{first, i}
	default:
		x.many[at] = append(second, i)
	}
}

func (x index) remove(at id, i *Item) {
	if x.one[at] == i {
		delete(x.one, at)
		return
	}
	if list := slices.DeleteFunc(x.many[at], func(o *Item) bool { return o == i }); len(list) > 0 {
		x.many[at] = list
		return
	}
	delete(x.many, at)
}
