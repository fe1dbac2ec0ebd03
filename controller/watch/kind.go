package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/cuvee-vm/cuvee/render"
)

// Kind has the objects of one kind. It may be used by several goroutines at a time.
type Kind struct {
	schema.GroupVersionKind
	// Namespaced says that its objects are in namespaces.
	Namespaced bool

	project project
	changed func(kind *Kind, was, is *Item)

	mu    sync.RWMutex
	items items
	// loose is how many have come, or gone, since they were moved together.
	loose   int
	byOwner index
	// byPatcher are the objects that fields are applied of, by the custom resource.
	byPatcher index
	// selections are the objects by the values of some labels, for each set of labels that is looked for.
	selections map[string]index
	wanted     wanted
	problems   map[string]error
	synced     map[string]bool
	// told are the resourceVersions up to which the watches have told everything, by their namespaces.
	told map[string]string
}

func newKind(gvk schema.GroupVersionKind, namespaced bool, p project, changed func(*Kind, *Item, *Item)) *Kind {
	return &Kind{
		GroupVersionKind: gvk, Namespaced: namespaced, project: p.withPacker(), changed: changed,
		items: items{}, byOwner: newIndex(), byPatcher: newIndex(),
		selections: map[string]index{}, wanted: newWanted(),
		problems: map[string]error{}, synced: map[string]bool{}, told: map[string]string{},
	}
}

// Get returns an object; nil if there is none.
func (k *Kind) Get(ref types.NamespacedName) *Item {
	if !k.Namespaced {
		ref.Namespace = ""
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.items.get(ref)
}

// Owned are the objects that were made for a custom resource.
func (k *Kind) Owned(owner types.UID) []*Item {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byOwner.of(idOf(owner))
}

// Patched are the objects of somebody else that fields are applied of for a custom resource.
func (k *Kind) Patched(by types.UID) []*Item {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byPatcher.of(idOf(by))
}

// All are all objects.
func (k *Kind) All() []*Item {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.AppendSeq(make([]*Item, 0, k.items.len()), k.items.all)
}

// Keeps says that what is kept of each object is just what a lookup asks for.
func (k *Kind) Keeps(l render.Lookup) bool {
	c := k.project.content
	switch {
	case c == nil || c.MetadataOnly != l.MetadataOnly:
		return false
	case c.MetadataOnly:
		return true
	}
	fields := slices.Compact(slices.Sorted(slices.Values(l.Fields)))
	return (c.Fields == nil) == (l.Fields == nil) && slices.Equal(c.Fields, fields)
}

// Address says where in a kind objects are looked for: by name, or by labels.
type Address string

// ByName is the address of one object.
func (k *Kind) ByName(namespace, name string) Address {
	if !k.Namespaced {
		namespace = ""
	}
	return Address(namespace + "/" + name)
}

// ByLabels is the address of the objects that have all the labels.
func (k *Kind) ByLabels(namespace string, labels map[string]string) Address {
	if !k.Namespaced {
		namespace = ""
	}
	keys := make([]string, 0, len(labels))
	for l := range labels {
		keys = append(keys, l)
	}
	slices.Sort(keys)
	values := make([]string, len(keys))
	for i, l := range keys {
		values[i] = labels[l]
	}
	return Address(namespace + "?" + strings.Join(keys, ",") + "?" + strings.Join(values, ","))
}

// Mark puts marks in the place of the namespace and the name of the one whose address it is: those of others that are alike look the
// same then.
func (a Address) Mark(whose types.NamespacedName) Address {
	at := strings.IndexAny(string(a), "/?")
	namespace, rest := string(a[:at]), string(a[at:])
	if namespace == whose.Namespace {
		namespace = namespaceMark
	}
	// The names of labels stay, the values are what is after them.
	name := strings.LastIndexByte(rest, '?') + 1
	return Address(namespace + rest[:name] + strings.ReplaceAll(rest[name:], whose.Name, nameMark))
}

// For puts somebody's namespace and name in the place of the marks.
func (a Address) For(whose types.NamespacedName) Address {
	rest, marked := strings.CutPrefix(string(a), namespaceMark)
	rest = strings.ReplaceAll(rest, nameMark, whose.Name)
	if marked {
		rest = whose.Namespace + rest
	}
	return Address(rest)
}

// namespaceMark stands for a namespace in a marked address.
const namespaceMark = "\x00"

// Find returns the objects at an address, sorted by name.
func (k *Kind) Find(a Address) []*Item {
	namespace, rest, selects := strings.Cut(string(a), "?")
	if !selects {
		namespace, name, _ := strings.Cut(string(a), "/")
		if i := k.Get(types.NamespacedName{Namespace: namespace, Name: name}); i != nil {
			return []*Item{i}
		}
		return nil
	}
	keys, values, _ := strings.Cut(rest, "?")
	k.mu.Lock()
	selection, ok := k.selections[keys]
	if !ok {
		selection = newIndex()
		k.selections[keys] = selection
		for i := range k.items.all {
			if s, ok := i.selector(keys); ok {
				selection.add(digestOf(s), i)
			}
		}
	}
	found := selection.of(digestOf(namespace + "?" + values))
	k.mu.Unlock()
	slices.SortFunc(found, func(a, b *Item) int { return strings.Compare(a.name, b.name) })
	return found
}

// Want makes changes at an address known as changes that concern who. The pointer is kept: there are many addresses for each.
func (k *Kind) Want(a Address, who *types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted.add(a, who)
}

// Unwant is the end of Want.
func (k *Kind) Unwant(a Address, who types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted.remove(a, who)
}

// Wanting are those who want to know about an object.
func (k *Kind) Wanting(i *Item) []types.NamespacedName {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := k.wanted.of(Address(i.Namespace() + "/" + i.name))
	for keys := range k.selections {
		if s, ok := i.selector(keys); ok {
			namespace, values, _ := strings.Cut(s, "?")
			out = append(out, k.wanted.of(Address(namespace+"?"+keys+"?"+values))...)
		}
	}
	return out
}

// selector is the namespace and the values of labels, if the item has them all.
func (i *Item) selector(keys string) (string, bool) {
	var values []string
	for key := range strings.SplitSeq(keys, ",") {
		v, ok := i.label(key)
		if !ok {
			return "", false
		}
		values = append(values, v)
	}
	return i.Namespace() + "?" + strings.Join(values, ","), true
}

// Problem is why the objects are not known, or not any more; nil if they are.
func (k *Kind) Problem() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, err := range k.problems {
		if err != nil {
			return err
		}
	}
	return nil
}

// noteProblem notes how the last request for a list or a watch has ended. A right that was taken away, or is back, is told at once;
// other problems pass, and what was known meanwhile is good enough.
func (k *Kind) noteProblem(namespace string, err error) {
	k.mu.Lock()
	was := apierrors.IsForbidden(k.problems[namespace])
	k.problems[namespace] = err
	tell := was != apierrors.IsForbidden(err) && k.synced[namespace]
	k.mu.Unlock()
	if tell {
		k.changed(k, nil, nil)
	}
}

// Synced says that all objects that were there at the start are known.
func (k *Kind) Synced() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, s := range k.synced {
		if !s {
			return false
		}
	}
	return true
}

// Whole says that the whole object has to be known for an item of this kind, not only its metadata.
func (k *Kind) Whole() bool {
	return k.project.content != nil && !k.project.content.MetadataOnly
}

// Learn stores an object as the API server has just returned it, so that one's own writes are known at once. It returns
// the item. One that has gone since is not stored: no watch would ever tell of that again.
func (k *Kind) Learn(object runtime.Object) (*Item, error) {
	i, err := k.project.item(object)
	if err != nil {
		return nil, err
	}
	k.put(i, true)
	return i, nil
}

// known is the item of an object, if it is known as it is: from the answer to one's own write, most likely.
func (k *Kind) known(object runtime.Object) *Item {
	m, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	i := k.Get(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()})
	if i == nil || i.uid != idOf(m.GetUID()) || i.ResourceVersion() != m.GetResourceVersion() {
		return nil
	}
	return i
}

// olderThan says that another item is a later state of the same object.
func (i *Item) olderThan(o *Item) bool {
	return o != nil && i.uid == o.uid && after(o.ResourceVersion(), i.ResourceVersion())
}

// after says that a resourceVersion is later than another one. It is false if they cannot be compared.
func after(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// tell notes up to where a watch has told everything. It is noted before what there is to tell is stored: what is learned in between is
// told a moment later.
func (k *Kind) tell(namespace, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.told[namespace]; last == "" || after(version, last) {
		k.told[namespace] = version
	}
}

// goneSince says that an object that is in the place of was, if there is one, has gone since it was as it is: a watch has told
// everything up to then, and it is not there.
func (k *Kind) goneSince(was, is *Item) bool {
	if was != nil && was.uid == is.uid {
		return false
	}
	told := cmp.Or(k.told[is.Namespace()], k.told[""])
	return told == is.ResourceVersion() || after(told, is.ResourceVersion())
}

// put stores an item, and tells.
func (k *Kind) put(is *Item, learned bool) {
	k.mu.Lock()
	was := k.items.get(is.Ref())
	if is.olderThan(was) || learned && k.goneSince(was, is) {
		k.mu.Unlock()
		return
	}
	same := was != nil && was.Same(is)
	if same && was.ResourceVersion() == is.ResourceVersion() {
		// It was learned, or is listed again.
		k.mu.Unlock()
		return
	}
	is.serial = serials.Add(1)
	if same {
		is.serial = was.serial
	}
	k.loose++
	if was != nil {
		k.unlink(was)
	}
	k.items.set(is)
	k.link(is)
	k.mu.Unlock()
	k.changed(k, was, is)
}

// remove removes an object that is not there at a resourceVersion, and tells. What has come since, as one's own writes say, stays, unless it
// is the one with the UID, which has gone.
func (k *Kind) remove(ref types.NamespacedName, version string, gone id) {
	k.mu.Lock()
	was := k.items.get(ref)
	if was == nil || was.uid != gone && after(was.ResourceVersion(), version) {
		k.mu.Unlock()
		return
	}
	k.loose++
	k.unlink(was)
	k.items.delete(ref)
	k.mu.Unlock()
	k.changed(k, was, nil)
}

// serials numbers the items of all kinds.
var serials atomic.Uint64

func (k *Kind) link(i *Item) {
	k.byOwner.add(i.owner, i)
	k.byPatcher.add(idOf(i.PatchedFor()), i)
	for keys, selection := range k.selections {
		if s, ok := i.selector(keys); ok {
			selection.add(digestOf(s), i)
		}
	}
}

func (k *Kind) unlink(i *Item) {
	k.byOwner.remove(i.owner, i)
	k.byPatcher.remove(idOf(i.PatchedFor()), i)
	for keys, selection := range k.selections {
		if s, ok := i.selector(keys); ok {
			selection.remove(digestOf(s), i)
		}
	}
}

// store is what a reflector fills: the objects of one namespace, or of all.
type store struct {
	kind      *Kind
	namespace string
}

var _ cache.TransformingStore = store{}

// Transformer makes items of objects as they arrive, so that a long list never is in memory as it is sent.
func (s store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *Item:
			return o, nil
		case runtime.Object:
			if i := s.kind.known(o); i != nil {
				return i, nil
			}
			return s.kind.project.item(o)
		}
		return object, nil
	}
}

func (s store) Add(object any) error {
	i, err := s.item(object)
	if err != nil {
		return err
	}
	s.kind.tell(s.namespace, i.ResourceVersion())
	s.kind.put(i, false)
	return nil
}

// item is what is kept of an object that a reflector hands over.
func (s store) item(object any) (*Item, error) {
	i, err := s.Transformer()(object)
	if err != nil {
		return nil, err
	}
	item, ok := i.(*Item)
	if !ok {
		return nil, fmt.Errorf("store object: it is a %T", object)
	}
	return item, nil
}

func (s store) Update(object any) error { return s.Add(object) }

// Delete removes an object, which has the resourceVersion of its end.
func (s store) Delete(object any) error {
	i, err := s.item(object)
	if err != nil {
		return err
	}
	s.kind.tell(s.namespace, i.ResourceVersion())
	s.kind.remove(i.Ref(), i.ResourceVersion(), i.uid)
	return nil
}

// Replace is a new list: what is not in it is gone.
func (s store) Replace(list []any, version string) error {
	s.kind.tell(s.namespace, version)
	there := map[types.NamespacedName]bool{}
	for _, object := range list {
		i, err := s.item(object)
		if err != nil {
			return err
		}
		there[i.Ref()] = true
		s.kind.put(i, false)
	}
	for _, i := range s.kind.All() {
		if !there[i.Ref()] && (s.namespace == "" || i.Namespace() == s.namespace) {
			s.kind.remove(i.Ref(), version, id{})
		}
	}
	s.kind.mu.Lock()
	s.kind.synced[s.namespace] = true
	s.kind.problems[s.namespace] = nil
	s.kind.mu.Unlock()
	s.kind.changed(s.kind, nil, nil)
	return nil
}

func (s store) Resync() error { return nil }
