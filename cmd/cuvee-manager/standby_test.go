package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// untilConfigMap waits for a ConfigMap in the world.
func (w *world) untilConfigMap(name string) {
	w.Helper()
	w.eventually(func() string { return w.has("", "configmaps", name) })
}

// TestStandby has a manager that waits for another one. It is ready, takes the templates, and writes nothing; it works when the
// other one gives its Lease back. That one is the test: on a busy machine a real one may lose it.
func TestStandby(t *testing.T) {
	w := newWorld(t, 1)
	c, err := kubernetes.NewForConfig(server.Config)
	w.must(err)
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now},
	}
	lease, err = c.CoordinationV1().Leases(w.namespace).Create(t.Context(), lease, metav1.CreateOptions{})
	w.must(err)

	dir, health, metrics := t.TempDir(), w.address(), w.address()
	w.must(os.WriteFile(filepath.Join(dir, "lab.cue"), []byte("package vm\n"), 0o600))
	m := w.manager(w.admin("waiting"), "--leader-election", "--templates", dir, "--health-probe-bind-address", health, "--metrics-bind-address", metrics)
	w.vm("web")
	w.eventually(func() string { return lacks(get(metrics, templatesPage), "for VirtualMachine") })
	w.eventually(func() string { return lacks(get(health, "/readyz"), "ok") })
	<-time.After(3 * time.Second)
	written, err := server.Since(w.mark, func(r testserver.Request) bool { return r.User == "waiting" && r.IsWrite() && !r.IsLease() })
	w.must(err)
	for _, r := range written {
		t.Errorf("the manager that waits has written: %s", r)
	}

	lease.Spec.HolderIdentity = ptr.To("")
	_, err = c.CoordinationV1().Leases(w.namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
	w.must(err)
	w.untilConfigMap("web")
	w.untilConfigMap(controller.KeptTemplates)
	alive(t, m)
}
