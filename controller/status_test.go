package controller_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podStatus sets the status of a VM's pod as kubelet and the scheduler do.
func (c *cluster) podStatus(vm, status string) {
	c.Helper()
	c.must(api.Status().Patch(c.Context(), c.get("v1", "Pod", vm+"-0"), client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`))))
}

// runner writes status as the VM's runner does.
func (c *cluster) runner(vm, status string) {
	c.Helper()
	u := c.object(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: %s}, status: %s}`, vm, status)
	u.SetUID(c.vm(vm).GetUID())
	c.must(api.Status().Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("cuvee.runner"), client.ForceOwnership))
}

const running = `{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}],
	"containerStatuses":[{"name":"web","image":"x","imageID":"x","restartCount":0,"ready":true,"state":{"running":{}}}]}`

// What keeps a VM from running is the reason of Ready.
func TestTrouble(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.waitFor("web", "Ready", "False", "WaitingForPod")
	c.create(podManifest, "web")
	waiting := func(reason string) string {
		return fmt.Sprintf(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[{"name":"web","image":"x","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"%s","message":"because"}}}]}`, reason)
	}
	for _, tc := range []struct{ name, status, reason, message string }{
		{"ClaimPending", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no volume"}]}`, "RepositoryUnbound", "vmop-image-repository"},
		{"ImagePull", waiting("ImagePullBackOff"), "ImagePull", "because"},
		{"CrashLoop", waiting("CrashLoopBackOff"), "CrashLoop", "because"},
		{"GuestStarting", running, "GuestStarting", ""},
		{"NodeLost", strings.Replace(running, `"Ready","status":"True"`, `"Ready","status":"False"`, 1), "NodeLost", "node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
			c.podStatus("web", tc.status)
			c.waitFor("web", "Ready", "False", tc.reason)
			if _, _, message := condition(c.vm("web"), "Ready"); !strings.Contains(message, tc.message) {
				t.Errorf("the message is %q, want it to have %q", message, tc.message)
			}
		})
	}
	c.podStatus("web", running)
	c.runner("web", `{cpus: 1, ram: 1Gi, conditions: [{type: Running, status: "True", reason: VmStarted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	c.waitFor("web", "Ready", "True", "Running")
	if got := at(c.vm("web"), "status", "cpus"); got != int64(1) {
		t.Errorf("the runner's status.cpus is %v, want 1", got)
	}
}

// Without a pod the manager says what the runner cannot any more, and the runner takes it back.
func TestStatusWithoutPod(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	pod := c.create(podManifest, "web")
	c.podStatus("web", running)
	const up = `{cpus: 1, ram: 1Gi, conditions: [{type: Running, status: "True", reason: VmStarted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.runner("web", up)
	c.waitFor("web", "Ready", "True", "Running")
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.waitFor("web", "Running", "False", "VmStopped")
	c.eventually(func() string {
		if vm := c.vm("web"); at(vm, "status", "cpus") != int64(0) || at(vm, "status", "ram") != "0" {
			return "the manager has not said that there is no guest"
		}
		return ""
	})
	c.create(podManifest, "web")
	c.podStatus("web", running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.runner("web", up)
	c.waitFor("web", "Ready", "True", "Running")
	c.waitFor("web", "Running", "True", "VmStarted")
	c.quiet()
	if got := managersOf(c.vm("web"), "f:cpus"); got != "cuvee.runner" {
		t.Errorf("status.cpus belongs to %s", got)
	}
}

// managersOf are the managers whose entry has a text.
func managersOf(u *unstructured.Unstructured, text string) string {
	var out []string
	for _, e := range u.GetManagedFields() {
		if e.FieldsV1 != nil && strings.Contains(e.FieldsV1.String(), text) {
			out = append(out, e.Manager)
		}
	}
	return strings.Join(out, ",")
}

// config is the runner's configuration.
func (c *cluster) config(vm string) map[string]any {
	c.Helper()
	var out map[string]any
	text, _ := at(c.get("v1", "ConfigMap", vm), "data", "config.json").(string)
	c.must(json.Unmarshal([]byte(text), &out))
	return out
}

// A change that QEMU cannot follow asks for a restart, by field.
func TestRestartRequired(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.create(podManifest, "web")
	c.podStatus("web", running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	config := c.config("web")
	booted, err := json.Marshal(map[string]any{"cpus": 1, "ram": "1Gi", "booted": map[string]any{"revision": config["revision"], "why": config["why"]}})
	c.must(err)
	c.runner("web", string(booted))
	c.waitFor("web", "RestartRequired", "False", "UpToDate")
	c.patchVM("web", `{"spec":{"vm":{"maximumCpus":4,"currentCpus":1}}}`)
	c.waitFor("web", "RestartRequired", "True", "ConfigurationChanged")
	if _, _, message := condition(c.vm("web"), "RestartRequired"); !strings.Contains(message, "spec.vm.maximumCpus") || strings.Contains(message, "maximumRam") || strings.Contains(message, "display") {
		t.Errorf("the message is %q, want it to name spec.vm.maximumCpus and no more", message)
	}
	c.patchVM("web", `{"spec":{"vm":{"maximumCpus":1}}}`)
	c.waitFor("web", "RestartRequired", "False", "")
}
