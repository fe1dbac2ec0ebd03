package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// Subjects are all custom resources of a view, with manifests in the place of those of their names. What is not there yet comes last.
func Subjects(view *controller.View, manifests ...*unstructured.Unstructured) ([]Subject, error) {
	given := map[string]*unstructured.Unstructured{}
	for _, m := range manifests {
		given[m.GetNamespace()+"/"+m.GetName()] = m
	}
	var out []Subject
	for _, item := range view.Resources() {
		object, err := item.Object()
		if err != nil {
			return nil, err
		}
		if m := given[item.Namespace+"/"+item.Name]; m != nil {
			delete(given, item.Namespace+"/"+item.Name)
			object = replaced(object, m)
		}
		out = append(out, Subject{Item: item, Resource: object})
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		out = append(out, Subject{Resource: given[key].Object})
	}
	return out, nil
}

// Named are the subjects of some manifests alone.
func Named(view *controller.View, manifests ...*unstructured.Unstructured) ([]Subject, error) {
	var out []Subject
	var errs []error
	for _, m := range manifests {
		item := view.Resource(m.GetNamespace(), m.GetName())
		if item == nil {
			out = append(out, Subject{Resource: m.Object})
			continue
		}
		object, err := item.Object()
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s/%s: %w", m.GetNamespace(), m.GetName(), err))
			continue
		}
		out = append(out, Subject{Item: item, Resource: replaced(object, m)})
	}
	return out, errors.Join(errs...)
}

// One is the subject for a custom resource that is there, as it is.
func One(item *watch.Item) (Subject, error) {
	object, err := item.Object()
	return Subject{Item: item, Resource: object}, err
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
