package controller_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// set changes the value of a ConfigMap by hand.
func (c *cluster) set(name, value string) {
	c.Helper()
	o := c.get("v1", "ConfigMap", name)
	c.must(api.Patch(c.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"data":{"v":"`+value+`"}}`)), client.FieldOwner("somebody")))
}

// What is created is made once, and then somebody else's to change; what is held is left as it is, and not removed.
func TestCreateAndHold(t *testing.T) {
	c := newParcels(t)
	c.parcel("p", `
objects:
  once: {apiVersion: v1, kind: ConfigMap, metadata: {name: once}, data: {v: '1'}}
  held: {apiVersion: v1, kind: ConfigMap, metadata: {name: held}, data: {v: '1'}}
policy: {once: {mode: create}}`)
	c.parcelSays("p", "True", "Applied")
	c.set("once", "mine")
	c.parcel("p", `
objects:
  once: {apiVersion: v1, kind: ConfigMap, metadata: {name: once}, data: {v: '2'}}
  held: {apiVersion: v1, kind: ConfigMap, metadata: {name: held}, data: {v: '2'}}
  never: {apiVersion: v1, kind: ConfigMap, metadata: {name: never}, data: {v: '2'}}
policy: {once: {mode: create}, held: {mode: hold}, never: {mode: hold}}`)
	c.parcelSays("p", "True", "Applied")
	c.quiet()
	for name, want := range map[string]any{"once": "mine", "held": "1", "never": nil} {
		if got := c.value(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	c.parcel("p", `objects: {}`)
	c.eventually(func() string {
		if c.value("once") != nil || c.value("held") != nil {
			return "what is not rendered any more is still there"
		}
		return ""
	})
}

const parcelPod = `{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: a, image: a,
  resources: {requests: {cpu: 100m}}}]}}`

// A patch changes an object of somebody else if it is there, and never makes one; also its subresources.
func TestPatch(t *testing.T) {
	c := newParcels(t)
	const spec = `
objects:
  mark: {apiVersion: v1, kind: Pod, metadata: {name: pod, labels: {mark: '1'}}}
  status: {apiVersion: v1, kind: Pod, metadata: {name: pod}, status: {conditions: [{type: example.com/Packed, status: 'True'}]}}
  resize: {apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {containers: [{name: a, resources: {requests: {cpu: 200m}}}]}}
policy: {mark: {mode: patch}, status: {mode: patch, subresource: status}, resize: {mode: patch, subresource: resize}}`
	c.parcel("p", spec)
	c.parcelSays("p", "True", "Applied")
	c.quiet()
	if c.get("v1", "Pod", "pod") != nil {
		t.Fatal("a patch has made the pod")
	}
	pod := c.create(parcelPod, "pod")
	c.eventually(func() string {
		now := c.get("v1", "Pod", "pod")
		conditions, _ := at(now, "status", "conditions").([]any)
		containers, _ := at(now, "spec", "containers").([]any)
		resources, _ := containers[0].(map[string]any)["resources"].(map[string]any)
		requests, _ := resources["requests"].(map[string]any)
		switch {
		case now.GetLabels()["mark"] != "1":
			return "the label is not there"
		case len(conditions) == 0:
			return "the condition is not there"
		case requests["cpu"] != "200m":
			return "the pod is not resized"
		}
		return ""
	})
	if now := c.get("v1", "Pod", "pod"); now.GetUID() != pod.GetUID() || len(now.GetOwnerReferences()) > 0 || now.GetLabels()["cuvee-vm.github.io/owner"] != "" {
		t.Errorf("the pod has become the parcel's: %v", now.Object["metadata"])
	}
	c.parcelSays("p", "True", "Applied")
	c.must(api.Delete(t.Context(), c.getParcel("p")))
	c.eventually(func() string {
		if c.getParcel("p") != nil {
			return "the parcel is still there"
		}
		return ""
	})
	if c.get("v1", "Pod", "pod") == nil {
		t.Error("the pod of somebody else has gone with the parcel")
	}
}

// What is to be deleted goes if it was made for the resource; what is somebody else's stays, and that is said.
func TestDelete(t *testing.T) {
	c := newParcels(t)
	c.create(parcelPod, "foreign")
	c.parcel("p", "objects: {pod: "+parcelPod+"}", "own")
	c.parcelSays("p", "True", "Applied")
	c.parcel("p", "{objects: {pod: "+parcelPod+"}, policy: {pod: {mode: delete}}}", "own")
	c.eventually(func() string {
		if c.get("v1", "Pod", "own") != nil {
			return "the pod is still there"
		}
		return ""
	})
	c.parcel("p", "{objects: {pod: "+parcelPod+"}, policy: {pod: {mode: delete}}}", "foreign")
	if m := c.parcelSays("p", "False", "Conflict"); !strings.Contains(m, "Pod "+c.namespace+"/foreign") {
		t.Errorf("the message does not name the pod: %s", m)
	}
	if c.get("v1", "Pod", "foreign") == nil {
		t.Error("a pod of somebody else has been deleted")
	}
}

// A wave waits until the one before it is whole. What fails in a wave keeps nothing else of it back.
func TestWaves(t *testing.T) {
	c := newParcels(t)
	const spec = `
objects:
  bad: {apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, data: {%s: '1'}}
  beside: {apiVersion: v1, kind: ConfigMap, metadata: {name: beside}, data: {v: '1'}}
  a-later: {apiVersion: v1, kind: ConfigMap, metadata: {name: later}, data: {v: '1'}}
policy: {a-later: {wave: 1}}`
	c.parcel("p", spec, "no key")
	if m := c.parcelSays("p", "False", "ApplyFailed"); !strings.Contains(m, "no key") {
		t.Errorf("the message does not say what is wrong: %s", m)
	}
	c.quiet()
	if c.value("beside") != "1" {
		t.Error("what is beside the failing object is not applied")
	}
	if c.value("later") != nil {
		t.Error("the next wave has not waited")
	}
	c.parcel("p", spec, "v")
	c.parcelSays("p", "True", "Applied")
	if c.value("later") != "1" {
		t.Error("the next wave is not applied")
	}
}

// What is reserved is stored before anything is applied, also if that then fails.
func TestReserve(t *testing.T) {
	c := newParcels(t)
	c.parcel("p", `
reserve: {index: 7}
objects: {bad: {apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, data: {'no key': '1'}}}`)
	c.parcelSays("p", "False", "ApplyFailed")
	if got := at(c.getParcel("p"), "status", "index"); got != int64(7) {
		t.Errorf("status.index is %v, want 7", got)
	}
	reserved, applied := -1, -1
	for i, w := range c.writes(0) {
		switch {
		case w.Resource == "parcels" && w.Subresource == "status" && reserved < 0:
			reserved = i
		case w.Resource == "configmaps" && w.Name == "bad" && applied < 0:
			applied = i
		}
	}
	if reserved < 0 || applied < 0 || reserved > applied {
		t.Errorf("the status was written at %d, the object at %d", reserved, applied)
	}
}

// Objects of the cluster and of other namespaces are kept like the others, and go with the resource, although the cluster
// would not remove them.
func TestOtherNamespaces(t *testing.T) {
	c := newNamespace(t)
	c.installParcels()
	other := newNamespace(t)
	c.others = []string{other.namespace}
	c.start(one(parcelPackage(t)))
	role := c.namespace + "-role"
	const spec = `
objects:
  there: {apiVersion: v1, kind: ConfigMap, metadata: {name: there, namespace: %s}, data: {v: '1'}}
  role: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}, rules: []}`
	c.parcel("p", spec, other.namespace, role)
	c.parcelSays("p", "True", "Applied")
	other.set("there", "2")
	c.eventually(func() string {
		if other.value("there") != "1" {
			return "drift in the other namespace stays"
		}
		return ""
	})
	getRole := func() bool { return c.get("rbac.authorization.k8s.io/v1", "ClusterRole", role) != nil }
	if !getRole() {
		t.Fatal("the ClusterRole is not there")
	}
	c.must(api.Delete(t.Context(), c.getParcel("p")))
	c.eventually(func() string {
		if c.getParcel("p") != nil || other.value("there") != nil || getRole() {
			return "something is left of the parcel"
		}
		return ""
	})
}
