package controller_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podManifest is what the StatefulSet's controller would make.
const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: %s-0, labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: %[1]s}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: %[1]s, image: cuvee-vm/cuvee-runner:latest}]}
`

// A VM that is deleted stays until its pod is gone; then it goes, and its claims stay.
func TestDeletion(t *testing.T) {
	c := newCluster(t)
	vm := c.create(vmManifest, "web")
	c.applied("web")
	pod := c.create(podManifest, "web")
	c.quiet()
	c.must(api.Delete(t.Context(), vm))
	c.eventually(func() string {
		if at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas") != int64(0) {
			return "the VM is not stopped"
		}
		return ""
	})
	c.quiet()
	if c.vm("web") == nil {
		t.Fatal("the VM has gone before its pod")
	}
	// A claim that somebody deletes with the VM is not made anew.
	data := c.get("v1", "PersistentVolumeClaim", "runner-data-web-0")
	c.must(api.Delete(t.Context(), data))
	c.must(client.IgnoreNotFound(api.Patch(t.Context(), data, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
	c.quiet()
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.eventually(func() string {
		if c.vm("web") != nil {
			return "the VM is still there"
		}
		return ""
	})
	if c.get("v1", "PersistentVolumeClaim", "system-disk-web-0") == nil {
		t.Error("the claim was removed")
	}
	if c.get("v1", "PersistentVolumeClaim", "runner-data-web-0") != nil {
		t.Error("a claim that was deleted with the VM is there again")
	}
}

// A VM whose specification is refused can be deleted all the same, with what was made for it. Its claims stay.
func TestDeletionOfInvalid(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	c.patchVM(`{"spec":{"vm":{"currentCpus":7}}}`)
	c.waitFor("web", "Ready", "False", "InvalidSpec")
	c.must(api.Delete(t.Context(), c.vm("web")))
	c.eventually(func() string {
		if vm := c.vm("web"); vm != nil {
			return fmt.Sprint("the VM is still there: ", vm.Object)
		}
		if c.get("apps/v1", "StatefulSet", "web") != nil || c.get("v1", "Secret", "web-console-token") != nil {
			return "something of the VM is still there"
		}
		return ""
	})
	if c.get("v1", "PersistentVolumeClaim", "system-disk-web-0") == nil {
		t.Error("the claim was removed")
	}
}

// A VM goes with its namespace, in which nothing can be made any more. The namespace's controller, which is not here, deletes what is in it.
func TestDeletionOfNamespace(t *testing.T) {
	c := newCluster(t)
	vm := c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	c.must(api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	for _, o := range []client.Object{c.get("v1", "ConfigMap", "web"), c.get("apps/v1", "StatefulSet", "web")} {
		c.must(client.IgnoreNotFound(api.Delete(t.Context(), o)))
	}
	c.eventually(func() string {
		if m := fmt.Sprint(at(c.vm("web"), "status", "conditions")); !strings.Contains(m, "because it is being terminated") {
			return "it is not known that the namespace is being deleted"
		}
		return ""
	})
	c.must(api.Delete(t.Context(), vm))
	c.eventually(func() string {
		if vm := c.vm("web"); vm != nil {
			return fmt.Sprint("the VM is still there: ", at(vm, "status", "conditions"))
		}
		return ""
	})
}
