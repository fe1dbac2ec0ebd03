package controller_test

import (
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// kubeVirt has the names that KubeVirt's own definition has.
const kubeVirt = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualmachines.kubevirt.io}
spec:
  group: kubevirt.io
  names: {kind: VirtualMachine, listKind: VirtualMachineList, plural: virtualmachines, singular: virtualmachine, shortNames: [vm, vms], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// KubeVirt has a kind of the same name, and short names that are our plural and singular. Both work side by side; kubectl takes vms and vm for ours.
func TestBesideKubeVirt(t *testing.T) {
	c := newNamespace(t)
	crd := &apiextensions.CustomResourceDefinition{}
	c.must(yaml.Unmarshal([]byte(kubeVirt), crd))
	_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{crd}, MaxTime: deadline})
	c.must(err)
	t.Cleanup(func() {
		_ = envtest.UninstallCRDs(server.Config, envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{crd}})
	})
	c.start(one(vmPackage(t)))
	theirs := c.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}, spec: {running: true}}`)
	c.create(vmManifest, "ours")
	c.create(vmManifest, "web")
	c.applied("ours")
	c.applied("web")
	c.quiet()
	after := c.get("kubevirt.io/v1", "VirtualMachine", "web")
	if after.GetResourceVersion() != theirs.GetResourceVersion() {
		t.Error("KubeVirt's VirtualMachine was changed")
	}
	c.must(client.IgnoreNotFound(api.Delete(t.Context(), theirs)))
	c.quiet()
	if c.vm("web").GetDeletionTimestamp() != nil || c.get("apps/v1", "StatefulSet", "web") == nil {
		t.Error("our VirtualMachine has gone with KubeVirt's of the same name")
	}
	c.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: theirs}, spec: {running: true}}`)
	const ours, kubeVirts = "virtualmachine.vmoperator.jdrupes.org/ours", "virtualmachine.kubevirt.io/theirs"
	for resource, want := range map[string]string{
		"vms.vmoperator.jdrupes.org":  ours,
		"vms":                         ours,
		"vm":                          ours,
		"virtualmachines.kubevirt.io": kubeVirts,
		"virtualmachines":             kubeVirts,
	} {
		out, err := c.kubectl("", "get", resource, "-o", "name")
		if err != nil || !strings.Contains(out, want) || want == ours && strings.Contains(out, "kubevirt") || want != ours && strings.Contains(out, "jdrupes") {
			t.Errorf("kubectl get %s gives %q (%v), want %s", resource, out, err, want)
		}
	}
}
