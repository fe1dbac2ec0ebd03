package watch

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/render"
)

// What the engine writes on each object that it makes.
const (
	// OwnerLabel has the UID of the custom resource that an object is made for.
	OwnerLabel = "cuvee-vm.github.io/owner"
	// KeyAnnotation has the object's key in the templates.
	KeyAnnotation = "cuvee-vm.github.io/key"
	// HashAnnotation has the digest of what was rendered.
	HashAnnotation = "cuvee-vm.github.io/hash"
	// PatchAnnotation has the UID of the custom resource that fields of somebody else's object are applied for.
	PatchAnnotation = "cuvee-vm.github.io/patched-for"
	// KeepAnnotation is on objects that are never removed, with the value "true".
	KeepAnnotation = "cuvee-vm.github.io/keep"
)

// kubectlApply is the manager of kubectl apply without --server-side.
const kubectlApply = "kubectl-client-side-apply"

// lastApplied is kubectl's copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Item is what is kept of an object. It is never changed. There are several for each custom resource, so they are small: what can be
// kept in fewer bytes than its text is, and what like objects have in common is in memory once.
type Item struct {
	name       string
	uid, owner id
	version    uint64
	generation int64
	// hash is a digest of the one that was written on it; zero if none was.
	hash   [16]byte
	common unique.Handle[common]
	// rare is nil for most.
	rare *rare
	// content is the JSON of the part that templates see, compressed if there is a dictionary; empty if they see none.
	content    string
	dictionary *dictionary
	sum        [16]byte
	serial     uint64
}

// common is what like objects have in common: the owner's UID, and the object's name, are taken out of it.
type common struct {
	namespace string
	// fields, statusFields and resizeFields are our entries in managedFields.
	fields, statusFields, resizeFields string
	// labels are lines of the form "key=value", sorted, with a line feed before the first.
	labels string
	// key and keep are what was written on it.
	key  string
	keep bool
	// controlled says that its owner is the owner reference that is marked as controller.
	controlled                               bool
	ownerReferenced, deleting, clientApplied bool
}

// rare is what few objects have.
type rare struct {
	patchedFor types.UID
	// controller is the UID of the owner reference that is marked as controller, if it is not the owner's.
	controller types.UID
	// uid and owner are those that are no UUID, and version the one that is no number.
	uid, owner types.UID
	version    string
}

// NewItem is what is kept of an object that is not there.
func NewItem(ref types.NamespacedName) *Item {
	return &Item{name: ref.Name, common: unique.Make(common{namespace: ref.Namespace})}
}

func (i *Item) few() rare {
	if i.rare == nil {
		return rare{}
	}
	return *i.rare
}

// Namespace is empty for objects of the cluster.
func (i *Item) Namespace() string { return i.common.Value().namespace }

// Name is the object's.
func (i *Item) Name() string { return i.name }

// UID is the object's.
func (i *Item) UID() types.UID { return cmp.Or(i.few().uid, i.uid.text()) }

// ResourceVersion is the object's.
func (i *Item) ResourceVersion() string {
	if i.version == 0 {
		return i.few().version
	}
	return strconv.FormatUint(i.version, 10)
}

// Generation moves with what is asked for.
func (i *Item) Generation() int64 { return i.generation }

// Owner is the UID of the custom resource that it was made for; empty if it was not made here.
func (i *Item) Owner() types.UID { return cmp.Or(i.few().owner, i.owner.text()) }

// PatchedFor is the UID of the custom resource that fields of it are applied for; empty if there is none.
func (i *Item) PatchedFor() types.UID { return i.few().patchedFor }

// Key is the object's key in the templates, as it was written on it.
func (i *Item) Key() string { return i.common.Value().key }

// HasHash says whether this is the digest that was written on it.
func (i *Item) HasHash(hash string) bool { return i.hash == digestOf(hash) }

// Keep says that it was marked as one that is never removed.
func (i *Item) Keep() bool { return i.common.Value().keep }

// OwnerReferenced says that one of the owner references is to Owner: the cluster removes the object with it.
func (i *Item) OwnerReferenced() bool { return i.common.Value().ownerReferenced }

// Deleting says that it is being removed.
func (i *Item) Deleting() bool { return i.common.Value().deleting }

// ClientApplied says that kubectl apply without --server-side has set fields of it.
func (i *Item) ClientApplied() bool { return i.common.Value().clientApplied }

// GetObjectMeta is what client-go identifies an item by.
func (i *Item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.name, UID: i.UID(), ResourceVersion: i.ResourceVersion()}
}

// Serial stands for all that Same compares: two items of this process with one serial are the same to the engine.
func (i *Item) Serial() uint64 { return i.serial }

// Sum stands for the part of the object that templates see; it is zero if they see none.
func (i *Item) Sum() [16]byte { return i.sum }

// Ref is the item's namespace and name.
func (i *Item) Ref() types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace(), Name: i.name}
}

// Controller is the UID of the owner reference that is marked as controller.
func (i *Item) Controller() types.UID {
	if i.common.Value().controlled {
		return i.Owner()
	}
	return i.few().controller
}

// Fields is our entry in managedFields for the object itself.
func (i *Item) Fields() []byte { return i.restore(i.common.Value().fields) }

// StatusFields is our entry in managedFields for the status.
func (i *Item) StatusFields() []byte { return i.restore(i.common.Value().statusFields) }

// SubresourceFields is our entry in managedFields for a subresource that templates can patch.
func (i *Item) SubresourceFields(subresource string) []byte {
	if subresource == resize {
		return i.restore(i.common.Value().resizeFields)
	}
	return i.StatusFields()
}

// Subresources are those that templates can patch.
var Subresources = []string{"status", resize}

const resize = "resize"

// Same says that two items are the same to the engine: nothing of ours has changed, nor what templates see.
func (i *Item) Same(o *Item) bool {
	return i.SameOwned(o) && i.sum == o.sum && i.common == o.common
}

// SameOwned says that nothing has changed that tells whether an object still is as it was applied.
func (i *Item) SameOwned(o *Item) bool {
	return i.uid == o.uid && i.owner == o.owner && i.hash == o.hash && i.few().owned() == o.few().owned() &&
		i.common.Value().owned() == o.common.Value().owned()
}

// WriteOwned writes all that SameOwned compares.
func (i *Item) WriteOwned(w io.Writer) {
	fmt.Fprintf(w, "%x %x %x %+v %+v\n", i.uid, i.owner, i.hash, i.few().owned(), i.common.Value().owned())
}

// owned is what stays while an object is the same.
func (r rare) owned() rare {
	r.version = ""
	return r
}

// owned is what does not come from labels, which are not ours alone.
func (c common) owned() common {
	c.labels = ""
	return c
}

// Object is the part of the object that templates see; it may be changed.
func (i *Item) Object() (map[string]any, error) {
	data, err := i.json()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	// Whole numbers stay such, as they are when a file is read.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &out); err != nil {
		return nil, fmt.Errorf("read what is kept of %s: %w", i.Ref(), err)
	}
	return out, nil
}

// partMark begins a label's value that is a part of the object's name, followed by where that begins and how long it is. No label
// has such a character.
const partMark = "\x01"

// keepLabels writes labels in a form that like objects of other custom resources have, too.
func (i *Item) keepLabels(labels map[string]string) string {
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		switch at := strings.Index(i.name, v); {
		case k == OwnerLabel:
			continue // It is the item's owner.
		case at >= 0 && v != "":
			fmt.Fprintf(&text, "\n%s=%s%d %d", k, partMark, at, len(v))
		default:
			text.WriteString("\n" + k + "=" + v)
		}
	}
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	return text.String()
}

// label is the value of a label.
func (i *Item) label(key string) (string, bool) {
	if key == OwnerLabel {
		owner := string(i.Owner())
		return owner, owner != ""
	}
	_, rest, ok := strings.Cut(i.common.Value().labels, "\n"+key+"=")
	if !ok {
		return "", false
	}
	value, _, _ := strings.Cut(rest, "\n")
	if part, ok := strings.CutPrefix(value, partMark); ok {
		var at, length int
		if _, err := fmt.Sscan(part, &at, &length); err == nil {
			value = i.name[at : at+length]
		}
	}
	return value, true
}

// ownerMark stands for the owner's UID in entries of managedFields, and nameMark for the object's name, by which a container may be
// called. JSON has no such characters.
const ownerMark, nameMark = "\x00", "\x01"

func (i *Item) keep(entry []byte) string {
	text := string(entry)
	if owner := i.Owner(); owner != "" {
		text = strings.ReplaceAll(text, string(owner), ownerMark)
	}
	return strings.ReplaceAll(text, i.name, nameMark)
}

func (i *Item) restore(kept string) []byte {
	text := strings.ReplaceAll(kept, nameMark, i.name)
	return []byte(strings.ReplaceAll(text, ownerMark, string(i.Owner())))
}

// project says what to keep of the objects of a kind.
type project struct {
	// manager is our field manager.
	manager string
	// content says which part templates see; nil if none.
	content *render.Lookup
	packer  *packer
}

func (p project) withPacker() project {
	p.packer = &packer{}
	return p
}

// item reads what is kept of an object.
func (p project) item(object runtime.Object) (*Item, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	annotations, labels := m.GetAnnotations(), m.GetLabels()
	// The text that a name is a part of is not kept for it.
	i := &Item{name: strings.Clone(m.GetName()), generation: m.GetGeneration(), hash: digestOf(annotations[HashAnnotation])}
	owner := types.UID(labels[OwnerLabel])
	c := common{
		namespace: m.GetNamespace(), key: annotations[KeyAnnotation], keep: annotations[KeepAnnotation] == "true", deleting: m.GetDeletionTimestamp() != nil,
		clientApplied: annotations[lastApplied] != "" && managedfields.UpdatedBy(m.GetManagedFields(), kubectlApply),
	}
	r := rare{patchedFor: types.UID(annotations[PatchAnnotation])}
	for _, reference := range m.GetOwnerReferences() {
		c.ownerReferenced = c.ownerReferenced || reference.UID == owner
		switch {
		case !ptr.Deref(reference.Controller, false):
		case reference.UID == owner:
			c.controlled = true
		default:
			r.controller = reference.UID
		}
	}
	if i.uid = idOf(m.GetUID()); i.uid.text() != m.GetUID() {
		r.uid = m.GetUID()
	}
	if i.owner = idOf(owner); i.owner.text() != owner {
		r.owner = owner
	}
	if i.version, err = strconv.ParseUint(m.GetResourceVersion(), 10, 64); err != nil || i.ResourceVersion() != m.GetResourceVersion() {
		i.version, r.version = 0, m.GetResourceVersion()
	}
	if r != (rare{}) {
		i.rare = &r
	}
	c.labels = i.keepLabels(labels)
	c.fields = i.keep(managedfields.Entry(m.GetManagedFields(), p.manager, ""))
	c.statusFields = i.keep(managedfields.Entry(m.GetManagedFields(), p.manager, "status"))
	c.resizeFields = i.keep(managedfields.Entry(m.GetManagedFields(), p.manager, resize))
	i.common = unique.Make(c)
	if p.content == nil {
		return i, nil
	}
	return i, p.pack(i, object)
}

// pack keeps the part of an object that templates see.
func (p project) pack(i *Item, object runtime.Object) error {
	content, err := content(object)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p.content.Project(content))
	if err != nil {
		return fmt.Errorf("write %s: %w", i.Ref(), err)
	}
	sum := sha256.Sum256(data)
	copy(i.sum[:], sum[:])
	packed, dictionary := p.packer.pack(data)
	i.content, i.dictionary = string(packed), dictionary
	return nil
}

// content is an object without what nobody asks for, and what changes all the time.
func content(object runtime.Object) (map[string]any, error) {
	var all map[string]any
	switch o := object.(type) {
	case *unstructured.Unstructured:
		all = o.Object
	case *metav1.PartialObjectMetadata:
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.ObjectMeta)
		if err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
		all = map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": m}
	default:
		return nil, fmt.Errorf("read object: it is a %T", object)
	}
	unstructured.RemoveNestedField(all, "metadata", "managedFields")
	unstructured.RemoveNestedField(all, "metadata", "annotations", lastApplied)
	return all, nil
}

func (i *Item) json() ([]byte, error) {
	if i.dictionary == nil {
		return []byte(i.content), nil
	}
	data, err := i.dictionary.unpack([]byte(i.content))
	if err != nil {
		return nil, fmt.Errorf("read what is kept of %s: %w", i.Ref(), err)
	}
	return data, nil
}
