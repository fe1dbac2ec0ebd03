package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// follow writes a line for each change of the VMs of these names, or of all, until the user ends it. Those that were written stand in
// the table already.
func (t *vmTable) follow(ctx context.Context, c *cluster, names []string, written []unstructured.Unstructured, version string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A watch that begins anew tells of all VMs, and most are as they were.
	last := map[types.UID]string{}
	for _, vm := range written {
		last[vm.GetUID()] = vm.GetResourceVersion()
	}
	err := c.watch(ctx, version, func(vm *unstructured.Unstructured) {
		if len(names) > 0 && !slices.Contains(names, vm.GetName()) || last[vm.GetUID()] == vm.GetResourceVersion() {
			return
		}
		last[vm.GetUID()] = vm.GetResourceVersion()
		t.write([]unstructured.Unstructured{*vm})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// watchPause is how long a watch that ended at once is left alone.
const watchPause = time.Second

// watch calls a function for each VM that is changed, and for those that are there if no version says from when on.
func (c *cluster) watch(ctx context.Context, version string, changed func(*unstructured.Unstructured)) error {
	// A watch is a request that takes as long as it takes.
	objects, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		// API servers end watches after some minutes; then it goes on where it was.
		w, err := objects.Resource(vmResource).Namespace(c.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			return c.failed(err)
		}
		version, err = receiveChanges(ctx, w, version, changed)
		if err != nil {
			return c.failed(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
	return nil
}

// receiveChanges hands on what a watch tells until it ends, and returns the version up to which it has told.
func receiveChanges(ctx context.Context, w watch.Interface, version string, changed func(*unstructured.Unstructured)) (string, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case event, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			if event.Type == watch.Error {
				err := apierrors.FromObject(event.Object)
				if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					// What lies between is told as it is now.
					return "", nil
				}
				return version, err
			}
			vm, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return version, errors.New("the API server sends something else than a VM")
			}
			version = vm.GetResourceVersion()
			if event.Type != watch.Bookmark {
				changed(vm)
			}
		}
	}
}
