package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cuveeSays makes Cuvee's VirtualMachine web say of itself what its manager and its runner would.
func (c machines) cuveeSays(ready, reason, message string, runs bool) {
	c.Helper()
	const time = `"lastTransitionTime":"2026-01-01T00:00:00Z"`
	running := "False"
	if runs {
		running = "True"
	}
	c.patch(c.vm("web"), "status", fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q,%s},{"type":"Running","status":%q,"reason":"VmStarted","message":"",%s}]}}`,
		ready, reason, message, time, running, time))
}

// appears waits until the object web is there.
func (c machines) appears(apiVersion, kind string) *unstructured.Unstructured {
	c.Helper()
	c.eventually(func() string {
		if c.get(apiVersion, kind, "web") == nil {
			return "there is no " + kind + " web of " + apiVersion
		}
		return ""
	})
	return c.get(apiVersion, kind, "web")
}

// conditionIs waits until a condition of the Machine web has a reason.
func (c machines) conditionIs(kind, reason string) (message string) {
	c.Helper()
	c.eventually(func() string {
		_, r, m := condition(c.getMachine(), kind)
		message = m
		if r != reason {
			return fmt.Sprintf("%s says %q (%s), want %s", kind, r, m, reason)
		}
		return ""
	})
	return message
}

const (
	ofKubeVirt = "kubevirt.io/v1"
	ofCuvee    = "vmoperator.jdrupes.org/v1"
)

// A Machine that runs stays where it is when its backend becomes another one, and moves when it is stopped, as one that is stopped. Its
// disks stay all the time.
func TestMachineBackend(t *testing.T) {
	c := newMachines(t, true)
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.printable("Running")
	c.says("Running", "Running")
	c.conditionIs("BackendAsSpecified", "AsSpecified")
	disk, first := c.get("v1", "PersistentVolumeClaim", "web-root").GetUID(), c.kubeVirt().GetUID()

	c.patch(m, "", `{"spec":{"provider":"cuvee"}}`)
	if message := c.conditionIs("BackendAsSpecified", "BackendChanged"); !strings.Contains(message, "virtctl stop web") {
		t.Errorf("the message does not say what to do: %s", message)
	}
	c.says("Running", "Running")
	c.quiet()
	if c.kubeVirt() == nil || c.vm("web") != nil {
		t.Fatal("a machine that runs has moved")
	}
	// It is looked after as before.
	c.patch(m, "", `{"spec":{"resources":{"cpu":{"cores":3}}}}`)
	c.eventually(func() string {
		if got := at(c.kubeVirt(), "spec", "template", "spec", "domain", "cpu", "cores"); got != int64(3) {
			return fmt.Sprintf("the VirtualMachine has %v cores, want 3", got)
		}
		return ""
	})
	if c.kubeVirt().GetUID() != first {
		t.Error("the VirtualMachine is another one")
	}

	c.patch(c.kubeVirt(), "", `{"spec":{"runStrategy":"Halted"}}`)
	c.printable("Stopped")
	if state := at(c.appears(ofCuvee, "VirtualMachine"), "spec", "vm", "state"); state != "Stopped" {
		t.Errorf("the machine has moved as one that is to be %v, want Stopped", state)
	}
	c.gone(ofKubeVirt, "VirtualMachine")
	c.cuveeSays("True", "Stopped", "", false)
	c.says("Stopped", "Stopped")
	c.conditionIs("BackendAsSpecified", "AsSpecified")

	c.patch(c.vm("web"), "", `{"spec":{"vm":{"state":"Running"}}}`)
	c.cuveeSays("True", "Running", "", true)
	c.says("Running", "Running")

	// And back, as the site's backend is KubeVirt.
	c.patch(m, "", `{"spec":{"provider":null}}`)
	if message := c.conditionIs("BackendAsSpecified", "BackendChanged"); !strings.Contains(message, "cuvee stop web") {
		t.Errorf("the message does not say what to do: %s", message)
	}
	c.quiet()
	if c.vm("web") == nil || c.kubeVirt() != nil {
		t.Fatal("a machine that runs has moved back")
	}
	c.patch(c.vm("web"), "", `{"spec":{"vm":{"state":"Stopped"}}}`)
	c.cuveeSays("False", "Stopping", "", true)
	c.quiet()
	if c.vm("web") == nil {
		t.Fatal("a machine has moved whose guest is still about to end")
	}
	c.cuveeSays("True", "Stopped", "", false)
	if strategy := at(c.appears(ofKubeVirt, "VirtualMachine"), "spec", "runStrategy"); strategy != "Halted" {
		t.Errorf("the machine has moved back with the strategy %v, want Halted", strategy)
	}
	c.gone(ofCuvee, "VirtualMachine")
	c.says("Stopped", "Stopped")
	if now := c.get("v1", "PersistentVolumeClaim", "web-root"); now == nil || now.GetUID() != disk {
		t.Error("the disk is not the one that there was")
	}
}
