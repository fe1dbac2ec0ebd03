package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// drift edits objects of VMs, one after the other, and prints how long it takes until they are again what they were.
func (b *bench) drift(ctx context.Context) error {
	edits := []struct {
		resource schema.GroupVersionResource
		patch    string
		path     []string
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, `{"data":{"config.json":"edited"}}`, []string{"data", "config.json"}},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, `{"spec":{"replicas":7}}`, []string{"spec", "replicas"}},
	}
	var took []time.Duration
	for i := range b.drifts {
		e := edits[i%len(edits)]
		// All over the VMs that there are.
		name := machine(managed, i*7919%b.made).Name
		d, err := correction(ctx, b.dynamic.Resource(e.resource).Namespace(managed), name, e.patch, e.path)
		if err != nil {
			return fmt.Errorf("edit %s %s: %w", e.resource.Resource, name, err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		at := int(math.Ceil(float64(len(took)*p)/100)) - 1
		fmt.Printf("figure controller.drift.p%d.ms %.1f ms\n", p, float64(took[at].Microseconds())/1e3)
	}
	return nil
}

// correction edits a field, and returns the time from the answer until the field is what it was.
func correction(ctx context.Context, objects dynamic.ResourceInterface, name, patch string, path []string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	one := fields.OneTermEqualSelector("metadata.name", name).String()
	// The resource version of an object may be too old for a watch, that of a list is of now.
	list, err := objects.List(ctx, metav1.ListOptions{FieldSelector: one})
	if err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, errors.New("it is not there")
	}
	want, _, _ := unstructured.NestedFieldNoCopy(list.Items[0].Object, path...)
	w, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: one, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	edited, err := objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if got, _, _ := unstructured.NestedFieldNoCopy(edited.Object, path...); got == want {
		return 0, errors.New("the edit has changed nothing")
	}
	seen := false
	for event := range w.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return 0, fmt.Errorf("the watch says %v", event.Object)
		}
		got, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		if seen && got == want {
			return time.Since(start), nil
		}
		seen = seen || object.GetResourceVersion() == edited.GetResourceVersion()
	}
	return 0, errors.New("it is not corrected")
}
