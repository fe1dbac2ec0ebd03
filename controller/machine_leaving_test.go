package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	eventsv1 "k8s.io/api/events/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// told waits for an Event about the Machine web, and returns its note.
func (c machines) told(kind, reason string) (note string) {
	c.Helper()
	c.eventually(func() string {
		var list eventsv1.EventList
		c.must(api.List(c.Context(), &list, client.InNamespace(c.namespace)))
		at := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == "Machine" && e.Regarding.Name == "web" && e.Type == kind && e.Reason == reason
		})
		if at < 0 {
			return fmt.Sprintf("there is no %s %s among %d Events", kind, reason, len(list.Items))
		}
		note = list.Items[at].Note
		return ""
	})
	return note
}

// restarted has another engine go on, with a site's files and Events.
func (c machines) restarted(site string) machines {
	c.Helper()
	p, err := controller.Load(cuvee.Files, fstest.MapFS{"site.cue": {Data: []byte("package machine\n" + site)}}, "site", "machine")
	c.must(err)
	c.stop()
	c.recordEvents()
	c.engine = c.start(one(p))
	return c
}

// KubeVirt is removed while there is a Machine, and nobody does what its finalizers wait for. The Machine says what it waits for, the
// annotation ends that, and an Event names what was there.
func TestMachineKubeVirtRemoved(t *testing.T) {
	c := newMachines(t, true).restarted("")
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.patch(c.kubeVirt(), "", `{"metadata":{"finalizers":["kubevirt.io/virtualMachineControllerFinalize"]}}`)
	const definition = "virtualmachines.kubevirt.io"
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name = definition
	c.must(api.Delete(t.Context(), crd))
	defer c.uninstallKubeVirt()
	c.eventually(func() string {
		if vm := c.kubeVirt(); vm == nil || vm.GetDeletionTimestamp() == nil {
			return "the VirtualMachine is not being deleted with its definition"
		}
		return ""
	})

	c.must(api.Delete(t.Context(), m))
	message := c.conditionIs("CleanedUp", "WaitingForMachine")
	for _, want := range []string{"VirtualMachine web of kubevirt.io", "machine.vitistack.io/force-cleanup"} {
		if !strings.Contains(message, want) {
			t.Errorf("CleanedUp does not name %s: %s", want, message)
		}
	}
	c.quiet()
	if claim := c.get("v1", "PersistentVolumeClaim", "web-root"); claim == nil || claim.GetDeletionTimestamp() != nil {
		t.Error("the disk is deleted before its VirtualMachine")
	}
	c.patch(c.getMachine(), "", `{"metadata":{"annotations":{"machine.vitistack.io/force-cleanup":"true"}}}`)
	c.gone("vitistack.io/v1alpha1", "Machine")
	note := c.told("Warning", "LeftBehind")
	for _, want := range []string{"VirtualMachine web of kubevirt.io", "PersistentVolumeClaim web-root"} {
		if !strings.Contains(note, want) {
			t.Errorf("the Event does not name %s: %s", want, note)
		}
	}
	if err := api.Get(t.Context(), types.NamespacedName{Name: definition}, crd); err != nil || crd.DeletionTimestamp == nil {
		t.Errorf("KubeVirt's definition is not waiting for its end: %v", err)
	}
}

// With the setting that keeps disks they stay, and an Event names them.
func TestMachineKeepsDisks(t *testing.T) {
	c := newMachines(t, true).restarted(`settings: disk: afterDeletion: "keep"`)
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.must(api.Delete(t.Context(), m))
	c.gone("vitistack.io/v1alpha1", "Machine")
	if note := c.told("Normal", "Kept"); !strings.Contains(note, "PersistentVolumeClaim web-root") {
		t.Errorf("the Event does not name the claim: %s", note)
	}
	if claim := c.get("v1", "PersistentVolumeClaim", "web-root"); claim == nil || claim.GetDeletionTimestamp() != nil || len(claim.GetOwnerReferences()) > 0 {
		t.Errorf("the claim does not stay: %v", claim)
	}
}
