package controller_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

const withCloudInit = `{"spec":{"cloudInit":{"userData":{"hostname":"x"}}}}`

// What is rendered no more is removed; claims and what users made stay.
func TestPrune(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.patchVM(withCloudInit)
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") == nil {
			return "no Secret for cloud-init"
		}
		return ""
	})
	// A user's Secret and claim, with all labels of the VM's but the owner's.
	c.create(`{apiVersion: v1, kind: Secret, metadata: {name: web-user, labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web, app.kubernetes.io/managed-by: vm-operator}}}`)

	c.patchVM(`{"spec":{"cloudInit":null,"vm":{"disks":[]}}}`)
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") != nil {
			return "the Secret for cloud-init is still there"
		}
		return ""
	})
	c.quiet()
	if c.get("v1", "PersistentVolumeClaim", "system-disk-web-0") == nil {
		t.Error("a claim was removed")
	}
	if c.get("v1", "Secret", "web-user") == nil {
		t.Error("a user's Secret was removed")
	}
}

// A manager that ended before it had pruned leaves nothing behind: the next one does.
func TestPruneAfterRestart(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.patchVM(withCloudInit)
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") == nil {
			return "no Secret for cloud-init"
		}
		return ""
	})
	c.stop()
	c.patchVM(`{"spec":{"cloudInit":null}}`)
	c.start(one(vmPackage(t)))
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") != nil {
			return "the Secret for cloud-init is still there"
		}
		return ""
	})
}

// A conflict does not mean that the object has gone: it is removed all the same.
func TestPruneAfterConflict(t *testing.T) {
	c := newNamespace(t)
	proxy, err := testserver.NewProxy(server.Config)
	c.must(err)
	defer proxy.Close()
	var refused atomic.Bool
	proxy.SetFaults(func(r *http.Request) testserver.Fault {
		if r.Method == http.MethodDelete && refused.CompareAndSwap(false, true) {
			return testserver.Fault{Status: http.StatusConflict}
		}
		return testserver.Fault{}
	})
	hc, err := rest.HTTPClientFor(proxy.Config)
	c.must(err)
	c.startWith(proxy.Config, hc, one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.patchVM(withCloudInit)
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") == nil {
			return "no Secret for cloud-init"
		}
		return ""
	})
	c.patchVM(`{"spec":{"cloudInit":null}}`)
	c.eventually(func() string {
		if c.get("v1", "Secret", "web-cloud-init") != nil || !refused.Load() {
			return "the Secret for cloud-init is still there"
		}
		return ""
	})
}
