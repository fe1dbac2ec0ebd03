package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// TestForbidden has a manager that may do nothing. It says what it may not do, stays, and does not ask again and again.
func TestForbidden(t *testing.T) {
	w := newWorld(t, 1)
	config, err := server.User("nobody")
	w.must(err)
	m := w.manager(config)
	w.eventually(func() string {
		if !strings.Contains(m.Log(), `is forbidden: User \"nobody\" cannot`) {
			return "the manager does not say what it may not do"
		}
		return ""
	})
	mark, err := server.Mark()
	w.must(err)
	<-time.After(5 * time.Second)
	requests, err := server.Since(mark, func(r testserver.Request) bool { return r.User == "nobody" })
	w.must(err)
	if len(requests) > 100 {
		t.Errorf("it asked %d times in 5 seconds: %v", len(requests), testserver.Count(requests))
	}
	alive(t, m)
}

func alive(t *testing.T, m *testserver.Process) {
	t.Helper()
	select {
	case <-m.Done():
		t.Error("the manager has ended")
	default:
	}
}

// TestOneKindForbidden has a manager that may see all kinds but one. The VM says which, and goes on as soon as the manager may.
func TestOneKindForbidden(t *testing.T) {
	w := newWorld(t, 1)
	const user = "without-secrets"
	config, err := server.User(user)
	w.must(err)
	w.allow(user, "all-but-secrets", []string{"*"}, []string{"configmaps", "persistentvolumeclaims", "pods", "services", "nodes"})
	w.allow(user, "other-groups", []string{"*"}, []string{"*"}, "apps", "vmoperator.jdrupes.org", "apiextensions.k8s.io", "events.k8s.io", "coordination.k8s.io")
	w.vm("web")
	m := w.manager(config)
	w.eventually(func() string {
		reason, message := w.ready("web")
		if reason != "WaitingForWatch" || !strings.Contains(message, "Secret") || !strings.Contains(message, user) {
			return "Ready does not say what the manager may not do: " + reason + ": " + message
		}
		return ""
	})
	alive(t, m)
	w.allow(user, "secrets", []string{"*"}, []string{"secrets"})
	w.eventually(func() string {
		if reason, message := w.ready("web"); reason != "Stopped" {
			return reason + ": " + message
		}
		return ""
	})
}

// ready is the reason and the message of the VM's condition Ready.
func (w *world) ready(vm string) (reason, message string) {
	w.Helper()
	u, err := w.machines().Get(w.Context(), vm, metav1.GetOptions{})
	w.must(err)
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return fmt.Sprint(m["reason"]), fmt.Sprint(m["message"])
		}
	}
	return "", ""
}

// allow gives a user rights on resources of groups; without one, of the core group.
func (w *world) allow(user, name string, verbs, resources []string, groups ...string) {
	w.Helper()
	if len(groups) == 0 {
		groups = []string{""}
	}
	name = w.namespace + "-" + name
	c, err := kubernetes.NewForConfig(server.Config)
	w.must(err)
	_, err = c.RbacV1().ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: groups, Resources: resources}},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = c.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	w.must(err)
}
