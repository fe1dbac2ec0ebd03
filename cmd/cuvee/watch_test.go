package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// vmAt is a VM of a version.
func vmAt(name, version string) *unstructured.Unstructured {
	vm := &unstructured.Unstructured{}
	vm.SetName(name)
	vm.SetResourceVersion(version)
	return vm
}

// A watch that the API server ends is gone on with from where it was, or, if that is too long ago, from what is there now.
func TestReceiveChanges(t *testing.T) {
	status := func(reason metav1.StatusReason, code int32) runtime.Object {
		return &metav1.Status{Status: metav1.StatusFailure, Reason: reason, Code: code}
	}
	cases := map[string]struct {
		reason  string
		events  []watch.Event
		told    []string
		version string
		fails   bool
	}{
		"Ended":    {"API servers end watches after a while.", []watch.Event{{Type: watch.Added, Object: vmAt("web", "7")}, {Type: watch.Modified, Object: vmAt("web", "9")}}, []string{"web 7", "web 9"}, "9", false},
		"Bookmark": {"It says how far it is, and nothing of a VM.", []watch.Event{{Type: watch.Bookmark, Object: vmAt("", "12")}}, nil, "12", false},
		"Deleted":  {"That one has gone is a change, too.", []watch.Event{{Type: watch.Deleted, Object: vmAt("web", "8")}}, []string{"web 8"}, "8", false},
		"Expired":  {"What was between is not known any more.", []watch.Event{{Type: watch.Error, Object: status(metav1.StatusReasonExpired, 410)}}, nil, "", false},
		"Gone":     {"An older server says it so.", []watch.Event{{Type: watch.Error, Object: status(metav1.StatusReasonGone, 410)}}, nil, "", false},
		"Refused":  {"Other errors end it.", []watch.Event{{Type: watch.Error, Object: status(metav1.StatusReasonForbidden, 403)}}, nil, "5", true},
		"Nonsense": {"A VM is what was asked for.", []watch.Event{{Type: watch.Added, Object: &metav1.PartialObjectMetadata{}}}, nil, "5", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := watch.NewFakeWithChanSize(len(tc.events), false)
			for _, e := range tc.events {
				w.Action(e.Type, e.Object)
			}
			if !tc.fails && tc.version != "" {
				w.Stop()
			}
			var told []string
			version, err := receiveChanges(t.Context(), w, "5", func(vm *unstructured.Unstructured) {
				told = append(told, vm.GetName()+" "+vm.GetResourceVersion())
			})
			if (err != nil) != tc.fails || version != tc.version {
				t.Errorf("%s\nthe version is %q, the error %v", tc.reason, version, err)
			}
			if diff := cmp.Diff(tc.told, told); diff != "" {
				t.Errorf("%s (-want +told):\n%s", tc.reason, diff)
			}
		})
	}
}

// Who ends the command does not wait for the next change.
func TestReceiveChangesEnds(t *testing.T) {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		if _, err := receiveChanges(ctx, watch.NewFake(), "5", nil); err != nil {
			t.Error(err)
		}
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(clusterPatience):
		t.Error("it goes on")
	}
}
