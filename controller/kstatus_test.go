package controller_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller"
)

// kstatus is what kstatus (sigs.k8s.io/cli-utils/pkg/kstatus) makes of a resource whose kind it does not know, with the message
// that it shows.
func kstatus(u *unstructured.Unstructured) (status, message string) {
	switch {
	case u == nil:
		return "NotFound", ""
	case u.GetDeletionTimestamp() != nil:
		return "Terminating", ""
	}
	if g := at(u, "status", "observedGeneration"); g != nil && g != u.GetGeneration() {
		return "InProgress", "generation"
	}
	if s, _, message := condition(u, "Reconciling"); s == "True" {
		return "InProgress", message
	}
	if s, _, message := condition(u, "Stalled"); s == "True" {
		return "Failed", message
	}
	switch s, _, message := condition(u, "Ready"); s {
	case "False", "Unknown":
		return "InProgress", message
	}
	return "Current", ""
}

// becomes waits until kstatus says something of a resource's present generation, and the manager has seen that.
func (c *cluster) becomes(get func() *unstructured.Unstructured, want string) (message string) {
	c.Helper()
	c.eventually(func() string {
		u := get()
		got, m := kstatus(u)
		if got != want || u != nil && at(u, "status", "observedGeneration") != u.GetGeneration() {
			return "it is " + got + ", want " + want
		}
		message = m
		return ""
	})
	return message
}

// Tools that wait for resources, as kpt and Flux do, understand those of any kind. The generation is there also when the
// specification is refused, from the start on.
func TestKstatus(t *testing.T) {
	c := newNamespace(t)
	c.installParcels()
	c.start(controller.Fixed{vmPackage(t), parcelPackage(t)})

	web := func() *unstructured.Unstructured { return c.vm("web") }
	c.create(vmManifest, "web")
	if m := c.becomes(web, "InProgress"); m == "" {
		t.Error("it is not said what it waits for")
	}
	c.patchVM(`{"spec":{"vm":{"state":"Stopped"}}}`)
	c.becomes(web, "Current")
	c.create(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a-disk-web-0, labels: {app.kubernetes.io/instance: other}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	c.patchVM(`{"spec":{"vm":{"disks":[{"volumeClaimTemplate":{"metadata":{"name":"a"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}}]}}}`)
	if m := c.becomes(web, "Failed"); m == "" {
		t.Error("it is not said what is wrong")
	}
	c.must(api.Delete(t.Context(), web()))
	c.becomes(web, "NotFound")

	parcel := func() *unstructured.Unstructured { return c.getParcel("p") }
	c.parcel("p", "objects: 7")
	if m := c.becomes(parcel, "Failed"); m == "" {
		t.Error("it is not said what is wrong")
	}
	c.parcel("p", "objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}")
	c.becomes(parcel, "Current")
	c.quiet()
	mark := c.mark()
	c.must(api.Patch(t.Context(), parcel(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	c.quiet()
	for _, w := range c.writes(mark) {
		t.Errorf("a label that says nothing was answered by a write: %s", w)
	}
}
