package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// Subject is a custom resource to plan for.
type Subject struct {
	// Item is what is there; nil if nothing is.
	Item *watch.Item
	// Manifest is what is to be applied; nil if what is there stays.
	Manifest *unstructured.Unstructured
}

// Resource is what is to be there. It is read anew each time, as those of ten thousand subjects are much.
func (s Subject) Resource() (map[string]any, error) {
	if s.Item == nil {
		return s.Manifest.Object, nil
	}
	object, err := s.Item.Object()
	if err != nil || s.Manifest == nil {
		return object, err
	}
	return replaced(object, s.Manifest), nil
}

// Subjects are all custom resources of a view, with manifests in the place of those of their names. What is not there yet comes last.
func Subjects(view *controller.View, manifests ...*unstructured.Unstructured) []Subject {
	given := map[string]*unstructured.Unstructured{}
	for _, m := range manifests {
		given[m.GetNamespace()+"/"+m.GetName()] = m
	}
	var out []Subject
	for _, item := range view.Resources() {
		name := item.Namespace() + "/" + item.Name()
		out = append(out, Subject{Item: item, Manifest: given[name]})
		delete(given, name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		out = append(out, Subject{Manifest: given[name]})
	}
	return out
}

// Named are the subjects of some manifests alone.
func Named(view *controller.View, manifests ...*unstructured.Unstructured) []Subject {
	var out []Subject
	for _, m := range manifests {
		out = append(out, Subject{Item: view.Resource(m.GetNamespace(), m.GetName()), Manifest: m})
	}
	return out
}

// replaced is a custom resource after its manifest was applied: the specification is the manifest's, labels and annotations are added to.
func replaced(object map[string]any, manifest *unstructured.Unstructured) map[string]any {
	is := &unstructured.Unstructured{Object: object}
	out := is.DeepCopy()
	for name, value := range manifest.Object {
		if name != "metadata" && name != "status" {
			out.Object[name] = value
		}
	}
	if labels := union(is.GetLabels(), manifest.GetLabels()); len(labels) > 0 {
		out.SetLabels(labels)
	}
	if annotations := union(is.GetAnnotations(), manifest.GetAnnotations()); len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	if !equality.Semantic.DeepEqual(is.Object["spec"], out.Object["spec"]) {
		out.SetGeneration(is.GetGeneration() + 1)
	}
	return out.Object
}

func union(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}
