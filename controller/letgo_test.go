package controller_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	patchLabel  = `mark: {apiVersion: v1, kind: Pod, metadata: {name: pod, labels: {mark: '1'}}}`
	patchStatus = `status: {apiVersion: v1, kind: Pod, metadata: {name: pod}, status: {conditions: [{type: example.com/Packed, status: 'True'}]}}`
	patchSize   = `resize: {apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {containers: [{name: a, resources: {requests: {cpu: 200m}}}]}}`
	patchModes  = `policy: {mark: {mode: patch}, status: {mode: patch, subresource: status}, resize: {mode: patch, subresource: resize}}`
)

// patches is the spec of a parcel that patches a pod.
func patches(objects ...string) string {
	return "{objects: {" + strings.Join(objects, ", ") + "}, " + patchModes + "}"
}

// packed says which of the patches a pod has.
func packed(pod *unstructured.Unstructured) string {
	var out []string
	if pod.GetLabels()["mark"] == "1" {
		out = append(out, "label")
	}
	conditions, _ := at(pod, "status", "conditions").([]any)
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == "example.com/Packed" && m["status"] == "True" {
			out = append(out, "status")
		}
	}
	if pod.GetAnnotations()["cuvee-vm.github.io/patched-for"] != "" {
		out = append(out, "annotation")
	}
	if slices.Contains(managers(pod), "cuvee.parcel") {
		out = append(out, "manager")
	}
	return strings.Join(out, " ")
}

func (c *cluster) untilPacked(want string) {
	c.Helper()
	c.eventually(func() string {
		if got := packed(c.get("v1", "Pod", "pod")); got != want {
			return "the pod has " + got + ", want " + want
		}
		return ""
	})
}

// Fields of somebody else's object that are not rendered any more are let go, also by a manager that did not apply them, and when
// the resource goes.
func TestPatchIsLetGo(t *testing.T) {
	c := newParcels(t)
	c.create(parcelPod, "pod")
	c.parcel("p", "%s", patches(patchLabel, patchStatus))
	c.untilPacked("label status annotation manager")

	c.parcel("p", "%s", patches(patchLabel))
	c.untilPacked("label annotation manager")

	c.stop()
	c.parcel("p", "%s", patches(patchStatus))
	c.start(one(parcelPackage(t)))
	c.untilPacked("status annotation manager")

	c.stop()
	c.parcel("p", `objects: {}`)
	c.start(one(parcelPackage(t)))
	c.untilPacked("")

	c.parcel("p", "%s", patches(patchLabel, patchStatus))
	c.untilPacked("label status annotation manager")
	c.must(api.Delete(t.Context(), c.getParcel("p")))
	c.eventually(func() string {
		if c.getParcel("p") != nil {
			return "the parcel is still there"
		}
		return ""
	})
	c.untilPacked("")
}

// What was patched is not sent again, and set back when somebody changes it: also in subresources.
func TestPatchDrift(t *testing.T) {
	c := newParcels(t)
	c.create(parcelPod, "pod")
	c.parcel("p", "%s", patches(patchLabel, patchStatus, patchSize))
	c.parcelSays("p", "True", "Applied")
	c.untilPacked("label status annotation manager")
	c.quiet()
	mark := c.mark()
	c.patch("example.com/v1", "Parcel", "p", `{"metadata":{"labels":{"another":"pass"}}}`)
	c.quiet()
	for _, w := range c.writes(mark) {
		if w.Resource == "pods" {
			t.Errorf("sent again: %s", w)
		}
	}
	pod := c.get("v1", "Pod", "pod")
	c.must(api.Status().Patch(t.Context(), pod, client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"status":{"conditions":[{"type":"example.com/Packed","status":"False"}]}}`)), client.FieldOwner("somebody")))
	c.untilPacked("label status annotation manager")
}

// An object can be patched for one resource only: with one field manager, each would let go of what the other has applied.
func TestPatchForTwo(t *testing.T) {
	c := newParcels(t)
	c.create(parcelPod, "pod")
	c.parcel("p", "%s", patches(patchLabel))
	c.parcelSays("p", "True", "Applied")
	c.parcel("q", "%s", patches(patchStatus))
	if m := c.parcelSays("q", "False", "Conflict"); !strings.Contains(m, "Parcel "+c.namespace+"/p") {
		t.Errorf("the message does not name the other parcel: %s", m)
	}
	// It follows when the pod is free.
	c.must(api.Delete(t.Context(), c.getParcel("p")))
	c.parcelSays("q", "True", "Applied")
	c.untilPacked("status annotation manager")
}

// A mark that somebody has copied to another object, or to one of the resource's own, has no effect.
func TestCopiedMark(t *testing.T) {
	c := newParcels(t)
	c.create(parcelPod, "pod")
	c.create(parcelPod, "copy")
	c.parcel("q", `objects: {}`)
	c.parcel("p", `objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: '1'}}}`)
	c.parcelSays("p", "True", "Applied")
	mark := func(parcel string) string {
		return `{"metadata":{"annotations":{"cuvee-vm.github.io/patched-for":"` + string(c.getParcel(parcel).GetUID()) + `"}}}`
	}
	c.patch("v1", "ConfigMap", "a", mark("p"))
	c.patch("v1", "Pod", "copy", mark("p"))
	c.patch("v1", "Pod", "pod", mark("q"))
	was := c.get("v1", "ConfigMap", "a").GetUID()
	c.parcel("p", "%s", "{objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: '2'}}, "+patchLabel+"}, policy: {mark: {mode: patch}}}")
	c.parcelSays("p", "True", "Applied")
	c.untilPacked("label annotation manager")
	c.quiet()
	if now := c.get("v1", "ConfigMap", "a"); now.GetUID() != was || at(now, "data", "v") != "2" {
		t.Errorf("the parcel's own ConfigMap is %v", now.Object)
	}
	for _, w := range c.writes(0) {
		if w.Name == "copy" {
			t.Errorf("an object that was never patched: %s", w)
		}
	}
}
