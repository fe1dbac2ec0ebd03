package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// has says whether an object is in the world.
func (w *world) has(group, plural, name string) string {
	w.Helper()
	if _, err := w.client.Resource(resource(group, plural)).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{}); err != nil {
		return err.Error()
	}
	return ""
}

// elsewhere are a user's requests in a namespace, and in the whole cluster for objects that have one.
func (w *world) elsewhere(user, namespace string) map[string]int {
	w.Helper()
	requests, err := server.Since(w.mark, func(r testserver.Request) bool {
		return r.User == user && (r.Namespace == namespace || r.Namespace == "" && (r.Resource == "vms" || r.Resource == "statefulsets"))
	})
	w.must(err)
	return testserver.Count(requests)
}

// TestTwoManagers has a manager in each of two namespaces, with one CustomResourceDefinition. Each works in its own, has its lease there,
// and asks for nothing in the other.
func TestTwoManagers(t *testing.T) {
	one, two := newWorld(t, 1), newWorld(t, 1)
	for _, w := range []*world{one, two} {
		w.vm("web")
		w.manager(w.admin("of-"+w.namespace), "--leader-election")
	}
	for _, w := range []*world{one, two} {
		w.eventually(func() string { return w.has("apps", "statefulsets", "web") })
		w.eventually(func() string { return w.has("coordination.k8s.io", "leases", leaseName) })
	}
	for mine, other := range map[*world]*world{one: two, two: one} {
		if found := mine.elsewhere("of-"+mine.namespace, other.namespace); len(found) > 0 {
			t.Errorf("the manager of %s is in %s or in all: %v", mine.namespace, other.namespace, found)
		}
	}
}

// TestWatchNamespaces has a manager for another namespace than its own, where it has only what it keeps for itself.
func TestWatchNamespaces(t *testing.T) {
	own, other := newWorld(t, 1), newWorld(t, 1)
	own.vm("left-alone")
	other.vm("web")
	own.manager(own.admin("for-another"), "--watch-namespaces", other.namespace)
	other.eventually(func() string { return other.has("apps", "statefulsets", "web") })
	if problem := own.has("", "configmaps", "cuvee-kinds"); problem != "" {
		t.Error(problem)
	}
	if own.has("apps", "statefulsets", "left-alone") == "" {
		t.Error("it works in its own namespace, which it was not told to")
	}
}

// TestWholeCluster has a manager for all namespaces.
func TestWholeCluster(t *testing.T) {
	own, other := newWorld(t, 1), newWorld(t, 1)
	own.vm("web")
	other.vm("web")
	own.manager(own.admin("for-all"), "--watch-namespaces", "*")
	for _, w := range []*world{own, other} {
		w.eventually(func() string { return w.has("apps", "statefulsets", "web") })
	}
}
