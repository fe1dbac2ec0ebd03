package main

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// vm returns a VM by its name.
func (c *cluster) vm(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	vm, err := c.vms().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !noKind(err) {
		return nil, c.noVM(ctx, name)
	}
	return vm, c.failed(err)
}

// list returns the VMs of these names, or all, and the version of the list.
func (c *cluster) list(ctx context.Context, names []string) ([]unstructured.Unstructured, string, error) {
	if len(names) == 0 {
		list, err := c.vms().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, "", c.failed(err)
		}
		return list.Items, list.GetResourceVersion(), nil
	}
	var vms []unstructured.Unstructured
	var errs []error
	for _, name := range names {
		vm, err := c.vm(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		vms = append(vms, *vm)
	}
	return vms, "", errors.Join(errs...)
}
