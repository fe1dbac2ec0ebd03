package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// events are the reasons of the Events about a VirtualMachine, sorted.
func (w *world) events(vm string) string {
	w.Helper()
	list, err := w.client.Resource(resource("events.k8s.io", "events")).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	var out []string
	for _, e := range list.Items {
		if name, _, _ := unstructured.NestedString(e.Object, "regarding", "name"); name == vm {
			reason, _, _ := unstructured.NestedString(e.Object, "reason")
			by, _, _ := unstructured.NestedString(e.Object, "reportingController")
			if count, _, _ := unstructured.NestedInt64(e.Object, "series", "count"); count > 1 {
				by += ", twice or more"
			}
			out = append(out, reason+" by "+by)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (w *world) untilEvents(vm, want string) {
	w.Helper()
	w.eventually(func() string {
		if got := w.events(vm); got != want {
			return fmt.Sprintf("the Events of %s are: %s; want: %s", vm, got, want)
		}
		return ""
	})
}

// An Event about what was made for a new VirtualMachine is written when the API server takes it, and is left when it refuses it; one that
// was left keeps no other one from being written.
func TestFirstEvents(t *testing.T) {
	w := newWorld(t, 0)
	proxy, err := testserver.NewProxy(w.admin("events"))
	w.must(err)
	defer proxy.Close()
	var left, status atomic.Int64
	proxy.SetFaults(func(r *http.Request) testserver.Fault {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") && left.Add(-1) >= 0 {
			return testserver.Fault{Status: int(status.Load())}
		}
		return testserver.Fault{}
	})
	m := w.manager(proxy.Config)
	w.vm("ready")
	w.untilEvents("ready", "Created by cuvee-manager")

	status.Store(http.StatusServiceUnavailable)
	left.Store(2)
	w.vm("late")
	w.untilEvents("late", "Created by cuvee-manager")

	status.Store(http.StatusForbidden)
	left.Store(1)
	w.vm("refused")
	w.eventually(func() string { return lacks(m.Log(), "cannot write an Event") })
	w.vm("next")
	w.untilEvents("next", "Created by cuvee-manager")
	if got := w.events("refused"); got != "" {
		t.Errorf("the Event that was refused was written after all: %s", got)
	}

	// What comes again is counted, and no Event of its own.
	for range 3 {
		configs := w.client.Resource(resource("", "configmaps")).Namespace(w.namespace)
		was, err := configs.Get(t.Context(), "next", metav1.GetOptions{})
		w.must(err)
		w.must(configs.Delete(t.Context(), "next", metav1.DeleteOptions{}))
		w.eventually(func() string {
			now, err := configs.Get(t.Context(), "next", metav1.GetOptions{})
			if err != nil || now.GetUID() == was.GetUID() {
				return "the ConfigMap was not made anew"
			}
			return ""
		})
	}
	w.untilEvents("next", "Created by cuvee-manager, Created by cuvee-manager, twice or more")
}
