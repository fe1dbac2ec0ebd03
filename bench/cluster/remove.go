package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// remove deletes VMs, or pods with all that is theirs, and waits until their pods are gone, so that the node has nothing to do.
func (b *bench) remove(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, name := range names {
		err := b.api.Resource(vmResource).Namespace(namespace).Delete(ctx, name, now)
		if apierrors.IsNotFound(err) {
			err = b.api.Resource(resources["StatefulSet"]).Namespace(namespace).Delete(ctx, name, now)
		}
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	if err := b.awaitNoPods(ctx, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := b.removeVolumes(ctx, claims(name)...); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) awaitNoPods(ctx context.Context, names []string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := b.api.Resource(podResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		left := 0
		for _, p := range list.Items {
			if slices.ContainsFunc(names, func(name string) bool { return p.GetName() == name+"-0" }) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d pods do not end: %w", left, ctx.Err())
		}
	}
}

func (b *bench) removeVolumes(ctx context.Context, claims ...string) error {
	for _, claim := range claims {
		err := b.api.Resource(resources["PersistentVolumeClaim"]).Namespace(namespace).Delete(ctx, claim, metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			err = b.api.Resource(resources["PersistentVolume"]).Delete(ctx, "bench-"+claim, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete the volume %s: %w", claim, err)
		}
		if err := os.RemoveAll(filepath.Join(b.volumes, claim)); err != nil {
			return err
		}
	}
	return nil
}
