package controller_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordEvents has the next engine write its Events to the API server.
func (c *cluster) recordEvents() {
	c.Helper()
	k, err := kubernetes.NewForConfig(server.Config)
	c.must(err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: k.EventsV1()})
	c.must(broadcaster.StartRecordingToSinkWithContext(c.Context()))
	c.Cleanup(broadcaster.Shutdown)
	c.recorder = broadcaster.NewRecorder(scheme.Scheme, "cuvee-manager")
}

// events are the Events about a VirtualMachine, the oldest first.
func (c *cluster) events(vm string) []string {
	c.Helper()
	var list eventsv1.EventList
	c.must(api.List(c.Context(), &list, client.InNamespace(c.namespace)))
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Name == vm && e.Regarding.Kind == "VirtualMachine" {
			out = append(out, strings.ReplaceAll(fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note), c.namespace+"/", ""))
		}
	}
	return out
}

// Events are about what has happened in the life of a VM, and nothing else: what holds from the start on is no event.
func TestEvents(t *testing.T) {
	c := newNamespace(t)
	c.recordEvents()
	c.start(one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.applied("web")
	pod := c.create(podManifest, "web")
	c.podStatus(running)
	c.waitFor("web", "Ready", "False", "GuestStarting")
	config := c.config("web")
	status, err := json.Marshal(map[string]any{"cpus": 1, "ram": "1Gi", "booted": map[string]any{"revision": config["revision"], "why": config["why"]}, "conditions": []any{
		map[string]any{"type": "Running", "status": "True", "reason": "VmStarted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}})
	c.must(err)
	c.runner(string(status))
	c.waitFor("web", "Ready", "True", "Running")

	c.patchVM(`{"spec":{"vm":{"state":"Stopped"}}}`)
	c.waitFor("web", "Ready", "False", "Stopping")
	c.runner(strings.Replace(strings.Replace(string(status), `"True"`, `"False"`, 1), "VmStarted", "VmStopped", 1))
	c.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.waitFor("web", "Ready", "True", "Stopped")

	c.patchVM(`{"spec":{"vm":{"currentCpus":7}}}`)
	c.waitFor("web", "Ready", "False", "InvalidSpec")
	c.patchVM(`{"spec":{"vm":{"currentCpus":1}}}`)
	c.waitFor("web", "Ready", "True", "Stopped")

	c.must(api.Delete(t.Context(), c.vm("web")))
	c.eventually(func() string {
		if c.vm("web") != nil {
			return "the VM is still there"
		}
		return ""
	})
	// Events are written by the way. One that comes again is counted, and tells nothing else.
	want := []string{
		"Normal Created: Created ConfigMap web, Secret web-console-tls, Secret web-console-token, Secret web-display-secret, PersistentVolumeClaim runner-data-web-0, PersistentVolumeClaim system-disk-web-0, StatefulSet web",
		"Normal Running: Ready is True",
		"Normal Stopping: The guest is shut down.",
		"Normal Stopped: Ready is True",
		"Warning InvalidSpec: spec.vm.currentCpus: 7 is more than the maximum, which is 1 here where maximumCpus is not given",
	}
	c.eventually(func() string {
		return cmp.Diff(want, c.events("web"))
	})
	<-time.After(time.Second)
	if diff := cmp.Diff(want, c.events("web")); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
