package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onEach runs a test for both backends.
func onEach(t *testing.T, test func(c machines, backend string)) {
	for _, backend := range []string{"kubevirt", "cuvee"} {
		t.Run(backend, func(t *testing.T) { test(newMachines(t, true), backend) })
	}
}

// made is the VirtualMachine web of a backend; nil if there is none.
func (c machines) made(backend string) *unstructured.Unstructured {
	c.Helper()
	if backend == "cuvee" {
		return c.vm("web")
	}
	return c.kubeVirt()
}

// runs makes the VirtualMachine web say that it runs.
func (c machines) runs(backend string) {
	c.Helper()
	if backend == "cuvee" {
		c.cuveeSays("True", "Running", "", true)
	} else {
		c.printable("Running")
	}
	c.says("Running", "Running")
}

// A template that is not there: nothing is made, and what was made stays as it is.
func TestMachineTemplateNotFound(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		m := c.machine("web", "{template: huge, provider: "+backend+"}")
		if message := c.says("Failed", "TemplateNotFound"); !strings.Contains(message, "large, medium, small") {
			c.Errorf("the message does not say which templates there are: %s", message)
		}
		c.patch(m, "", `{"spec":{"template":"large"}}`)
		c.says("Creating", "Creating")
		c.runs(backend)
		c.quiet()
		before := c.made(backend).GetResourceVersion()
		c.patch(m, "", `{"spec":{"template":"gone"}}`)
		c.says("Running", "TemplateNotFound")
		if c.made(backend).GetResourceVersion() != before || c.get("v1", "PersistentVolumeClaim", "web-root") == nil {
			c.Error("what was made has changed")
		}
	})
}

func TestMachineNetworkConfigurationNotFound(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		c.machine("web", "{template: small, provider: "+backend+", networks: [{name: eth0, networkName: prod}]}")
		c.says("Failed", "NetworkConfigurationNotFound")
		c.conditionIs("NetworkReady", "NetworkFailed")
		if c.get("v1", "PersistentVolumeClaim", "web-root") != nil {
			c.Error("there is a claim, though there is no network")
		}
		c.create(`{apiVersion: vitistack.io/v1alpha1, kind: NetworkConfiguration, metadata: {name: prod}, spec: {vlan: 100, bridge: br-prod}}`)
		c.says("Creating", "Creating")
		c.conditionIs("NetworkReady", "NetworkConfigured")
		if backend == "cuvee" {
			networks, _ := at(c.vm("web"), "spec", "vm", "networks").([]any)
			if got := fmt.Sprint(networks); !strings.Contains(got, "bridge:br-prod") {
				c.Errorf("the VirtualMachine has the networks %s", got)
			}
			return
		}
		attachment := c.get("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "web-eth0")
		if config, _ := at(attachment, "spec", "config").(string); !strings.Contains(config, `"bridge":"br-prod"`) || !strings.Contains(config, `"vlan":100`) {
			c.Errorf("the NetworkAttachmentDefinition has the configuration %q", config)
		}
	})
}

func TestMachineStorageClassNotFound(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		c.machine("web", "{template: small, provider: "+backend+", disks: [{name: root, storageClass: "+c.namespace+"}]}")
		c.says("Failed", "StorageClassNotFound")
		class := c.create(`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %s}, provisioner: example.com/none}`, c.namespace)
		c.says("Creating", "Creating")
		// A claim that is there needs its class no more.
		c.must(api.Delete(c.Context(), class))
		c.quiet()
		c.says("Creating", "Creating")
	})
}

// No node takes the machine: it says so in the scheduler's words, and starts by itself when there is room.
func TestMachineInsufficientResources(t *testing.T) {
	const words = "0/3 nodes are available: 3 Insufficient memory."
	onEach(t, func(c machines, backend string) {
		c.machine("web", "{template: large, provider: "+backend+"}")
		c.says("Creating", "Creating")
		if backend == "cuvee" {
			c.cuveeSays("False", "Unschedulable", words, false)
		} else {
			vmi := c.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web}, spec: {domain: {devices: {}}}}`)
			c.patch(vmi, "", `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"`+words+`"}]}}`)
			c.printable("ErrorUnschedulable")
		}
		if message := c.says("Creating", "InsufficientResources"); message != words {
			c.Errorf("the message is %q, want %q", message, words)
		}
		if backend == "kubevirt" {
			c.patch(c.get(ofKubeVirt, "VirtualMachineInstance", "web"), "", `{"status":{"conditions":[{"type":"PodScheduled","status":"True"}]}}`)
		}
		c.runs(backend)
	})
}

// A VirtualMachine that KubeVirt refuses is an error of KubeVirt's API, with its words, and is tried again when the Machine is mended.
func TestMachineKubeVirtRefuses(t *testing.T) {
	c := newMachines(t, true)
	quota := c.create(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {count/virtualmachines.kubevirt.io: "0"}}}`)
	// Nothing counts here.
	c.patch(quota, "status", `{"status":{"hard":{"count/virtualmachines.kubevirt.io":"0"},"used":{"count/virtualmachines.kubevirt.io":"0"}}}`)
	m := c.machine("web", "{template: small}")
	if message := c.says("Creating", "KubeVirtApiError"); !strings.Contains(message, "exceeded quota") {
		t.Errorf("the message does not have the API server's words: %s", message)
	}
	c.must(api.Delete(t.Context(), quota))
	c.eventually(func() string {
		// The API server may need a moment to know it.
		c.patch(m, "", fmt.Sprintf(`{"metadata":{"annotations":{"tried":"%d"}}}`, time.Now().UnixNano()))
		_, reason, message := condition(c.getMachine(), "Ready")
		if reason != "Creating" {
			return fmt.Sprintf("Ready says %s (%s), want Creating", reason, message)
		}
		return ""
	})
	if c.kubeVirt() == nil {
		t.Error("there is no VirtualMachine")
	}
}

// A VirtualMachine of somebody else is left alone.
func TestMachineNameTaken(t *testing.T) {
	onEach(t, func(c machines, backend string) {
		manifest := `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`
		if backend == "cuvee" {
			manifest = `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, spec: {vm: {state: Stopped, maximumRam: 1Gi}}}`
		}
		theirs := c.create("%s", manifest)
		c.machine("web", "{template: small, provider: "+backend+"}")
		c.says("Failed", "NameTaken")
		if c.made(backend).GetResourceVersion() != theirs.GetResourceVersion() {
			c.Error("somebody else's VirtualMachine was changed")
		}
		c.must(api.Delete(c.Context(), theirs))
		c.says("Creating", "Creating")
	})
}

// What a Machine lacks of a Secret is said, too.
func TestMachineSecretNotFound(t *testing.T) {
	c := newMachines(t, true)
	c.machine("web", "{template: small, cloudInit: {secretRef: {name: mine, key: cloud.cfg}}}")
	c.says("Failed", "SecretNotFound")
	secret := c.create(`{apiVersion: v1, kind: Secret, metadata: {name: mine}, data: {other: b25l}}`)
	c.quiet()
	c.says("Failed", "SecretNotFound")
	c.must(api.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"cloud.cfg":"b25l"}}`))))
	c.says("Creating", "Creating")
}
