package watch

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// Item is what is kept of an object. It is never changed.
type Item struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	// Generation moves with what is asked for.
	Generation int64
	// Owner is the UID of the custom resource that it was made for; empty if it was not made here.
	Owner types.UID
	// PatchedFor is the UID of the custom resource that fields of it are applied for; empty if there is none.
	PatchedFor types.UID
	// Key, Hash and Keep are what was written on it.
	Key, Hash string
	Keep      bool
	// OwnerReferenced says that one of the owner references is to Owner: the cluster removes the object with it.
	OwnerReferenced bool
	// Deleting says that it is being removed.
	Deleting bool
	// ClientApplied says that kubectl apply without --server-side has set fields of it.
	ClientApplied bool

	common unique.Handle[common]
	// content is the JSON of the part that templates see, compressed if there is a dictionary; nil if they see none.
	content    []byte
	dictionary *dictionary
	sum        [16]byte
	serial     uint64
}

// common is what like objects have in common, and once in memory: the owner's UID, and the object's name, are taken out of it.
type common struct {
	// fields, statusFields and resizeFields are our entries in managedFields.
	fields, statusFields, resizeFields string
	// labels are lines of the form "key=value", sorted, with a line feed before the first.
	labels string
	// controller is the UID of the owner reference that is marked as controller.
	controller string
}

// GetObjectMeta is what client-go identifies an item by.
func (i *Item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Name, UID: i.UID, ResourceVersion: i.ResourceVersion}
}

// Serial stands for all that Same compares: two items of this process with one serial are the same to the engine.
func (i *Item) Serial() uint64 { return i.serial }

// Sum stands for the part of the object that templates see; it is zero if they see none.
func (i *Item) Sum() [16]byte { return i.sum }

// Ref is the item's namespace and name.
func (i *Item) Ref() types.NamespacedName {
	return types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
}

// Controller is the UID of the owner reference that is marked as controller.
func (i *Item) Controller() types.UID { return types.UID(i.restore(i.common.Value().controller)) }

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
	return i.UID == o.UID && i.Owner == o.Owner && i.Key == o.Key && i.Hash == o.Hash && i.PatchedFor == o.PatchedFor &&
		i.Keep == o.Keep && i.Deleting == o.Deleting && i.ClientApplied == o.ClientApplied && i.common.Value().owned() == o.common.Value().owned()
}

// WriteOwned writes all that SameOwned compares.
func (i *Item) WriteOwned(w io.Writer) {
	c := i.common.Value()
	fmt.Fprintf(w, "%s %s %s %s %s %t %t %t %s %s %s %s\n", i.UID, i.Owner, c.controller, i.Key, i.Hash, i.Keep, i.Deleting, i.ClientApplied,
		c.fields, i.PatchedFor, c.statusFields, c.resizeFields)
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
		switch at := strings.Index(i.Name, v); {
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
		return string(i.Owner), i.Owner != ""
	}
	_, rest, ok := strings.Cut(i.common.Value().labels, "\n"+key+"=")
	if !ok {
		return "", false
	}
	value, _, _ := strings.Cut(rest, "\n")
	if part, ok := strings.CutPrefix(value, partMark); ok {
		var at, length int
		if _, err := fmt.Sscan(part, &at, &length); err == nil {
			value = i.Name[at : at+length]
		}
	}
	return value, true
}

// ownerMark stands for the owner's UID in entries of managedFields, and nameMark for the object's name, by which a container may be
// called. JSON has no such characters.
const ownerMark, nameMark = "\x00", "\x01"

func (i *Item) keep(entry []byte) string {
	text := string(entry)
	if i.Owner != "" {
		text = strings.ReplaceAll(text, string(i.Owner), ownerMark)
	}
	return strings.ReplaceAll(text, i.Name, nameMark)
}

func (i *Item) restore(kept string) []byte {
	text := strings.ReplaceAll(kept, nameMark, i.Name)
	return []byte(strings.ReplaceAll(text, ownerMark, string(i.Owner)))
}

// shared is a text that many items have, once in memory.
func shared(text string) string { return unique.Make(text).Value() }

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
	i := &Item{
		Namespace: shared(m.GetNamespace()), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
		Generation: m.GetGeneration(),
		Owner:      types.UID(shared(labels[OwnerLabel])), PatchedFor: types.UID(annotations[PatchAnnotation]), Key: shared(annotations[KeyAnnotation]), Hash: annotations[HashAnnotation],
		Keep: annotations[KeepAnnotation] == "true", Deleting: m.GetDeletionTimestamp() != nil,
		ClientApplied: annotations[lastApplied] != "" && managedfields.UpdatedBy(m.GetManagedFields(), kubectlApply),
	}
	var c common
	for _, r := range m.GetOwnerReferences() {
		i.OwnerReferenced = i.OwnerReferenced || r.UID == i.Owner
		if r.Controller != nil && *r.Controller {
			c.controller = i.keep([]byte(r.UID))
		}
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
	i.content, i.dictionary = p.packer.pack(data)
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
		return i.content, nil
	}
	data, err := i.dictionary.unpack(i.content)
	if err != nil {
		return nil, fmt.Errorf("read what is kept of %s: %w", i.Ref(), err)
	}
	return data, nil
}
