package controller_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// podStatus sets the status of the pod of the VM web as kubelet and the scheduler do.
func (c *cluster) podStatus(status string) {
	c.Helper()
	c.must(api.Status().Patch(c.Context(), c.get("v1", "Pod", "web-0"), client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`))))
}

// runner writes status as the runner of the VM web does.
func (c *cluster) runner(status string) {
	c.Helper()
	u := c.object(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: web}, status: %s}`, status)
	u.SetUID(c.vm("web").GetUID())
	c.must(api.Status().Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("cuvee.runner"), client.ForceOwnership))
}

const running = `{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}],
	"containerStatuses":[{"name":"web","image":"x","imageID":"x","restartCount":0,"ready":true,"state":{"running":{}}}]}`

// bind says of a claim that it has a volume, as the controller of volumes does.
func (c *cluster) bind(claim string) {
	c.Helper()
	c.must(api.Status().Patch(c.Context(), c.get("v1", "PersistentVolumeClaim", claim), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Bound"}}`))))
}

// What keeps a VM from running is the reason of Ready.
func TestTrouble(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.waitFor("web", "Ready", "False", "WaitingForPod")
	c.create(podManifest, "web")
	lost := strings.Replace(running, `"Ready","status":"True"`, `"Ready","status":"False"`, 1)
	waiting := func(reason string) string {
		return fmt.Sprintf(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[{"name":"web","image":"x","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"%s","message":"because"}}}]}`, reason)
	}
	for _, tc := range []struct{ name, status, reason, message string }{
		{"ClaimPending", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no volume"}]}`, "RepositoryUnbound", "vmop-image-repository"},
		{"ImagePull", waiting("ImagePullBackOff"), "ImagePull", "because"},
		{"CrashLoop", waiting("CrashLoopBackOff"), "CrashLoop", "because"},
		{"ImageNotOnNode", waiting("ErrImageNeverPull"), "ImagePull", "ErrImageNeverPull"},
		{"GuestStarting", running, "GuestStarting", ""},
		{"NodeLost", lost, "NodeLost", "node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
			c.podStatus(tc.status)
			c.waitFor("web", "Ready", "False", tc.reason)
			if _, _, message := condition(c.vm("web"), "Ready"); !strings.Contains(message, tc.message) {
				t.Errorf("the message is %q, want it to have %q", message, tc.message)
			}
		})
	}
	const unschedulable = `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}],"containerStatuses":[]}`
	c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: vmop-image-repository}, spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}`)
	c.bind("vmop-image-repository")
	c.podStatus(unschedulable)
	if message := c.waitFor("web", "Ready", "False", "ClaimPending"); !strings.Contains(message, "system-disk-web-0") || !strings.Contains(message, "0/1 nodes") {
		t.Errorf("the message names neither the claim nor what the scheduler says: %s", message)
	}
	c.bind("system-disk-web-0")
	c.bind("runner-data-web-0")
	if message := c.waitFor("web", "Ready", "False", "Unschedulable"); message != "0/1 nodes are available" {
		t.Errorf("the message is not that of the scheduler: %s", message)
	}
	c.podStatus(running)
	c.runner(`{cpus: 1, ram: 1Gi, conditions: [{type: Running, status: "True", reason: VmStarted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	c.waitFor("web", "Ready", "True", "Running")
	if got := at(c.vm("web"), "status", "cpus"); got != int64(1) {
		t.Errorf("the runner's status.cpus is %v, want 1", got)
	}

	// A pod that is deleted with its node away stays until somebody does something about the node.
	pod := c.get("v1", "Pod", "web-0")
	c.must(api.Patch(c.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/kubelet"]}}`))))
	c.must(api.Delete(c.Context(), pod))
	c.waitFor("web", "Ready", "False", "PodTerminating")
	c.podStatus(lost)
	c.waitFor("web", "Ready", "False", "NodeLost")
}

// up is a status of a runner with a guest, in which somebody works.
const up = `{cpus: 1, ram: 1Gi, consoleClient: 192.0.2.1, loggedInUser: ann, guest: {agentVersion: "7.2", hostname: web, os: {id: debian}, interfaces: [{name: eth0}]},
  osinfo: {id: debian}, booted: {revision: r}, resolved: {machine: {type: q35}}, runnerVersion: v1, displayPasswordSerial: 3, conditions: [%s]}`

// runnersTypes are the types of the runner's conditions.
var runnersTypes = []string{"Running", "Booted", "Paused", "LiveChangesApplied", "GuestAgentConnected", "VmopAgentConnected", "UserLoggedIn", "ConsoleConnected"}

// runnerConditions are all conditions of a runner, with a status and a reason that only the test has.
func runnerConditions(status string) string {
	var all []string
	for _, t := range runnersTypes {
		all = append(all, fmt.Sprintf(`{type: %s, status: "%s", reason: ByRunner, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`, t, status))
	}
	return strings.Join(all, ", ")
}

// runnersReasons are status and reason of the runner's conditions.
func runnersReasons(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, t := range runnersTypes {
		status, reason, _ := condition(u, t)
		out[t] = status + " " + reason
	}
	return out
}

// Without a pod the manager says what the runner cannot any more, and the runner takes it back.
func TestStatusWithoutPod(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	pod := c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	c.runner(fmt.Sprintf(up, runnerConditions("True")))
	c.waitFor("web", "Ready", "True", "Running")
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.waitFor("web", "Running", "False", "VmStopped")
	c.quiet()
	vm := c.vm("web")
	status, _ := at(vm, "status").(map[string]any)
	left := maps.Clone(status)
	for _, f := range []string{"conditions", "image"} {
		delete(left, f)
	}
	if diff := cmp.Diff(map[string]any{
		"cpus": int64(0), "ram": "0", "consoleClient": "", "runnerVersion": "v1", "displayPasswordSerial": int64(3), "observedGeneration": int64(1),
		"booted": map[string]any{"revision": "r"}, "resolved": map[string]any{"machine": map[string]any{"type": "q35"}},
	}, left); diff != "" {
		t.Errorf("the status of a VM without a pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"Running": "False VmStopped", "Booted": "False VmStopped", "Paused": "False NotPaused", "LiveChangesApplied": "True AsSpecified",
		"GuestAgentConnected": "False VmStopped", "VmopAgentConnected": "False VmStopped", "UserLoggedIn": "False VmStopped", "ConsoleConnected": "False VmStopped",
	}, runnersReasons(vm)); diff != "" {
		t.Errorf("the conditions of a VM without a pod (-want +got):\n%s", diff)
	}

	c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	// Some are as the manager had them, and belong to both for a while.
	c.runner(fmt.Sprintf(up, runnerConditions("False")))
	c.waitFor("web", "Ready", "True", "Running")
	c.quiet()
	vm = c.vm("web")
	for name, reason := range runnersReasons(vm) {
		if reason != "False ByRunner" {
			t.Errorf("the condition %s is %s", name, reason)
		}
	}
	if got := at(vm, "status", "guest", "hostname"); got != "web" {
		t.Errorf("status.guest.hostname is %v", got)
	}
	for _, f := range []string{`"f:cpus"`, `"f:ram"`, `"f:consoleClient"`, `"f:guest"`, `"f:osinfo"`, `"f:loggedInUser"`, `k:{\"type\":\"Running\"}`, `k:{\"type\":\"Paused\"}`} {
		if got := managersOf(vm, f); got != "cuvee.runner" {
			t.Errorf("%s belongs to %s", f, got)
		}
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
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	config := c.config("web")
	booted, err := json.Marshal(map[string]any{"cpus": 1, "ram": "1Gi", "booted": map[string]any{"revision": config["revision"], "why": config["why"]}})
	c.must(err)
	c.runner(string(booted))
	c.waitFor("web", "RestartRequired", "False", "UpToDate")
	c.patchVM(`{"spec":{"vm":{"maximumCpus":4,"currentCpus":1}}}`)
	c.waitFor("web", "RestartRequired", "True", "ConfigurationChanged")
	if _, _, message := condition(c.vm("web"), "RestartRequired"); !strings.Contains(message, "spec.vm.maximumCpus") || strings.Contains(message, "maximumRam") || strings.Contains(message, "display") {
		t.Errorf("the message is %q, want it to name spec.vm.maximumCpus and no more", message)
	}
	c.patchVM(`{"spec":{"vm":{"maximumCpus":1}}}`)
	c.waitFor("web", "RestartRequired", "False", "")

	// The image is not in the configuration, but in the pod.
	c.patchVM(`{"spec":{"image":{"source":"example.com/runner:2"}}}`)
	if message := c.waitFor("web", "RestartRequired", "True", "ConfigurationChanged"); !strings.HasSuffix(message, ": spec.image") {
		t.Errorf("the message is %q, want it to name spec.image and no more", message)
	}
	// Nor is the choice of the nodes, which only another pod follows.
	c.patchVM(`{"spec":{"image":null}}`)
	c.waitFor("web", "RestartRequired", "False", "UpToDate")
	c.patchVM(`{"spec":{"nodeSelector":{"zone":"b"}}}`)
	if message := c.waitFor("web", "RestartRequired", "True", "ConfigurationChanged"); !strings.HasSuffix(message, ": spec.nodeSelector") {
		t.Errorf("the message is %q, want it to name spec.nodeSelector and no more", message)
	}
	// What can be changed while the VM runs asks for nothing.
	c.patchVM(`{"spec":{"nodeSelector":null,"vm":{"powerdownTimeout":33}}}`)
	c.waitFor("web", "RestartRequired", "False", "UpToDate")
	c.quiet()
	c.waitFor("web", "RestartRequired", "False", "UpToDate")

	// Templates of a site can make another machine of the same specification.
	c.stop()
	site := fstest.MapFS{"site.cue": {Data: []byte("package vm\n\nqemu: device: watchdog: {driver: \"i6300esb\"}\n")}}
	p, err := controller.Load(cuvee.Files, site, "site", "vm")
	c.must(err)
	c.start(one(p))
	if message := c.waitFor("web", "RestartRequired", "True", "ConfigurationChanged"); !strings.Contains(message, "templates") {
		t.Errorf("the message is %q, want it to name the templates", message)
	}
}

// A pod that starts has something new several times a second. What is no other status of a condition is written once a second at most, and
// never lost; what is, at once.
func TestStatusIsCalm(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	c.applied("web")
	c.create(podManifest, "web")
	mark, begun := c.mark(), time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := range 30 {
		c.podStatus(fmt.Sprintf(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],"containerStatuses":[
			{"name":"web","image":"x","imageID":"","restartCount":0,"ready":false,"state":{"waiting":{"reason":"ImagePullBackOff","message":"attempt %d."}}}]}`, i))
		<-tick.C
	}
	c.eventually(func() string {
		if _, _, message := condition(c.vm("web"), "Ready"); !strings.Contains(message, "attempt 29.") {
			return "the last message is not told: " + message
		}
		return ""
	})
	writes := 0
	for _, r := range c.writes(mark) {
		if r.Subresource == "status" {
			writes++
		}
	}
	if most := 2 + int(time.Since(begun)/time.Second); writes > most {
		t.Errorf("the status was written %d times, want at most %d", writes, most)
	}
}
