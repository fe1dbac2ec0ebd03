package controller_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A claim that somebody has made before is the disk of a Machine, and stays theirs: it is neither changed nor removed with the Machine.
func TestMachineUsesClaim(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		theirs := c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-root, labels: {mine: "yes"}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
		m := c.machine("web", "{template: small, provider: "+backend+", disks: [{name: data, size: 1Gi}]}")
		c.says("Creating", "Creating")
		if c.made(backend) == nil || c.get("v1", "PersistentVolumeClaim", "web-data") == nil {
			c.Fatal("the Machine is not made")
		}
		c.quiet()
		unchanged := func() {
			c.Helper()
			now := c.get("v1", "PersistentVolumeClaim", "web-root")
			if now == nil || now.GetDeletionTimestamp() != nil || now.GetResourceVersion() != theirs.GetResourceVersion() {
				c.Errorf("somebody's claim has changed: %v", now)
			}
		}
		unchanged()
		c.must(api.Delete(c.Context(), m))
		c.claimGoes("web-data")
		c.gone("vitistack.io/v1alpha1", "Machine")
		c.quiet()
		unchanged()
	})
}

// The claim of another Machine, or of a VM, is nobody else's disk.
func TestMachineClaimTaken(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		for _, labels := range []string{
			`{app.kubernetes.io/managed-by: vm-operator, app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: other}`,
			`{vitistack.io/managed-by: kubevirt-operator, vitistack.io/machine: other}`,
		} {
			theirs := c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-root, finalizers: [example.com/hold], labels: %s}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, labels)
			m := c.machine("web", "{template: small, provider: "+backend+"}")
			c.says("Failed", "NameTaken")
			c.quiet()
			if c.made(backend) != nil {
				c.Error("there is a VirtualMachine with another's disk")
			}
			c.must(api.Delete(c.Context(), m))
			c.gone("vitistack.io/v1alpha1", "Machine")
			now := c.get("v1", "PersistentVolumeClaim", "web-root")
			if now == nil || now.GetDeletionTimestamp() != nil || now.GetResourceVersion() != theirs.GetResourceVersion() {
				c.Errorf("another's claim has changed: %v", now)
			}
			c.must(client.IgnoreNotFound(api.Delete(c.Context(), now)))
			c.patch(now, "", `{"metadata":{"finalizers":null}}`)
		}
	})
}

// A Secret, or a NetworkAttachmentDefinition, that somebody else has made is not overwritten.
func TestMachineObjectsTaken(t *testing.T) {
	c := newMachines(t, true)
	c.create(`{apiVersion: vitistack.io/v1alpha1, kind: NetworkConfiguration, metadata: {name: prod}, spec: {vlan: 100}}`)
	c.create(`{apiVersion: v1, kind: Secret, metadata: {name: mine}, data: {cloud.cfg: b25l}}`)
	for _, manifest := range []string{
		`{apiVersion: v1, kind: Secret, metadata: {name: web-cloudinit}, data: {theirs: b25l}}`,
		`{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: web-eth0}, spec: {config: '{"type": "theirs"}'}}`,
	} {
		theirs := c.create("%s", manifest)
		m := c.machine("web", "{template: small, networks: [{name: eth0, networkName: prod}], cloudInit: {secretRef: {name: mine, key: cloud.cfg}}}")
		c.says("Failed", "NameTaken")
		c.quiet()
		now := c.get(theirs.GetAPIVersion(), theirs.GetKind(), theirs.GetName())
		if now == nil || now.GetResourceVersion() != theirs.GetResourceVersion() {
			t.Errorf("somebody else's %s has changed: %v", theirs.GetKind(), now)
		}
		c.must(api.Delete(t.Context(), theirs))
		c.says("Creating", "Creating")
		c.must(api.Delete(t.Context(), m))
		c.claimGoes("web-root")
		c.gone("vitistack.io/v1alpha1", "Machine")
	}
}
