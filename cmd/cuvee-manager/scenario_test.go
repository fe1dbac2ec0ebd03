package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// steps are what is done to the VirtualMachines, one after the other; each is one apply a VirtualMachine.
func (w *world) steps() []func(i int) error {
	return []func(i int) error{
		func(i int) error {
			vm := object("vmoperator.jdrupes.org/v1", "VirtualMachine", name(i))
			vm.Object["spec"] = map[string]any{"vm": map[string]any{"state": "Running", "maximumRam": "1Gi", "disks": []any{disk("system")}}}
			_, err := w.machines().Create(w.Context(), vm, metav1.CreateOptions{})
			return err
		},
		func(i int) error {
			return w.patch(i, map[string]any{"spec": map[string]any{"vm": map[string]any{"maximumRam": "2Gi", "disks": []any{disk("system"), disk("data")}}}})
		},
		func(i int) error {
			switch {
			case i%5 == 0:
				return w.machines().Delete(w.Context(), name(i), metav1.DeleteOptions{})
			case i%2 == 0:
				// An empty one means none: the Service has to go.
				return w.patch(i, map[string]any{"spec": map[string]any{"loadBalancerService": map[string]any{}}})
			}
			return w.patch(i, map[string]any{"spec": map[string]any{"vm": map[string]any{"state": "Stopped"}}})
		},
	}
}

func name(i int) string { return fmt.Sprintf("vm-%03d", i) }

func disk(name string) map[string]any {
	return map[string]any{"volumeClaimTemplate": map[string]any{
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}
}

func (w *world) patch(i int, change map[string]any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = w.machines().Patch(w.Context(), name(i), types.MergePatchType, data, metav1.PatchOptions{})
	return err
}

// site has every VirtualMachine get a Service.
const site = "package vm\n\nsettings: loadBalancerService: enabled: true\n"

// siteManager starts the program with a site's templates.
func (w *world) siteManager(config *rest.Config, args ...string) *testserver.Process {
	w.Helper()
	dir := w.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "site.cue"), []byte(site), 0o600))
	return w.manager(config, append(args, "--templates", dir)...)
}

// live goes through the steps; after each it waits until the manager has done all there is to do.
func (w *world) live() {
	w.Helper()
	for n, step := range w.steps() {
		for i := range w.vms {
			// The API server may be away for a while.
			w.eventually(func() string {
				if err := step(i); err != nil && !strings.Contains(err.Error(), "already exists") && !strings.Contains(err.Error(), "not found") {
					return err.Error()
				}
				return ""
			})
		}
		w.eventually(func() string {
			if problem := w.unsettled(); problem != "" {
				return fmt.Sprintf("step %d: %s", n, problem)
			}
			return ""
		})
	}
}

// unsettled names a VirtualMachine that the manager is not done with.
func (w *world) unsettled() string {
	list, err := w.machines().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, vm := range list.Items {
		if vm.GetDeletionTimestamp() != nil {
			return vm.GetName() + " is being deleted"
		}
		if reason, observed := reconciling(vm); observed != vm.GetGeneration() || !slices.Contains(settled, reason) {
			text, _ := json.Marshal(vm.Object["status"])
			return fmt.Sprintf("%s is at generation %d of %d: %s", vm.GetName(), observed, vm.GetGeneration(), text)
		}
	}
	return ""
}

// settled are the reasons of Reconciling of a VirtualMachine that the manager is done with: nothing makes pods here.
var settled = []string{"Settled", "WaitingForPod", "Stopped"}

// reconciling is the reason of the condition, and the generation that it is about.
func reconciling(u unstructured.Unstructured) (reason string, generation int64) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Reconciling" {
			generation, _ = m["observedGeneration"].(int64)
			return fmt.Sprint(m["reason"]), generation
		}
	}
	return "", 0
}

// kinds are those that may be found in a world.
var kinds = []schema.GroupVersionResource{
	resource("vmoperator.jdrupes.org", "vms"), resource("apps", "statefulsets"), resource("", "configmaps"),
	resource("", "secrets"), resource("", "services"), resource("", "persistentvolumeclaims"),
}

// state is all that is in the world, without what no two worlds have in common.
func (w *world) state() map[string]string {
	w.Helper()
	out := map[string]string{}
	var replace []string
	for _, k := range kinds {
		list, err := w.client.Resource(k).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
		w.must(err)
		for _, o := range list.Items {
			replace = append(replace, string(o.GetUID()), "uid")
			if owners := o.GetOwnerReferences(); len(owners) > 0 {
				replace = append(replace, string(owners[0].UID), "owner")
			}
			out[k.Resource+" "+o.GetName()] = comparable(o)
		}
	}
	replacer := strings.NewReplacer(append(replace, w.namespace, "world")...)
	for k, v := range out {
		out[k] = ofUID.ReplaceAllString(replacer.Replace(v), "made-of-the-uid")
	}
	return out
}

// ofUID matches what templates make of the VM's UID: the machine's own, and digests that it goes into.
var ofUID = regexp.MustCompile(`[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{64}`)

// comparable leaves out what the API server makes up, and what is random.
func comparable(o unstructured.Unstructured) string {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	ports, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ports")
	if list, ok := ports.([]any); ok {
		for _, p := range list {
			delete(p.(map[string]any), "nodePort")
		}
	}
	annotations := o.GetAnnotations()
	for k := range annotations {
		if strings.Contains(k, "hash") {
			delete(annotations, k)
		}
	}
	o.SetAnnotations(annotations)
	if o.GetKind() == "Secret" {
		data, _ := o.Object["data"].(map[string]any)
		for k := range data {
			data[k] = "random"
		}
	}
	conditions, found, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		delete(c.(map[string]any), "lastTransitionTime")
	}
	slices.SortFunc(conditions, func(a, b any) int {
		return strings.Compare(fmt.Sprint(a.(map[string]any)["type"]), fmt.Sprint(b.(map[string]any)["type"]))
	})
	if found {
		_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
	}
	text, _ := json.MarshalIndent(o.Object, "", " ")
	return string(text)
}

// writes are what the manager has written in the world since a moment, as one of the users, for VirtualMachines: no Events, not
// its Lease, and not the templates, which each of several managers keeps.
func (w *world) writes(since testserver.Mark, users ...string) []testserver.Request {
	w.Helper()
	all, err := server.Since(since, func(r testserver.Request) bool {
		return r.Agent == "cuvee-manager" && r.Namespace == w.namespace && r.IsWrite() && slices.Contains(users, r.User) &&
			!r.IsLease() && r.Resource != "events" && r.Name != controller.KeptTemplates
	})
	w.must(err)
	return all
}

// alike is after how many VirtualMachines the next one has the same life, see steps.
const alike = 10

// calm is the state of a world that nothing has disturbed.
var calm map[string]string

// whole is what is left in the end of so many VirtualMachines: two have been deleted, four have lost their Services. What is
// garbage then stays, as nothing collects it here. The manager itself has two ConfigMaps.
var whole = map[string]int{"vms": 8, "statefulsets": 10, "configmaps": 12, "secrets": 30, "services": 6, "persistentvolumeclaims": 30}

// undisturbed is what a world of so many VirtualMachines looks like that nothing has disturbed.
func undisturbed(t *testing.T, vms int) map[string]string {
	t.Helper()
	if calm == nil {
		w := newWorld(t, alike)
		m := w.siteManager(w.admin("calm"))
		w.live()
		w.settle("calm")
		m.Kill()
		calm = w.state()
		count := map[string]int{}
		for key := range calm {
			count[strings.Fields(key)[0]]++
		}
		if diff := cmp.Diff(whole, count); diff != "" {
			t.Errorf("undisturbed there is something else than is wanted (-want +is):\n%s", diff)
		}
	}
	out := map[string]string{}
	for key, object := range calm {
		var first int
		if _, err := fmt.Sscanf(ofVM.FindString(key), "vm-%d", &first); err != nil {
			out[key] = object
			continue
		}
		for i := first; i < vms; i += alike {
			out[strings.ReplaceAll(key, name(first), name(i))] = strings.ReplaceAll(object, name(first), name(i))
		}
	}
	return out
}

// ofVM matches the name of a VirtualMachine.
var ofVM = regexp.MustCompile(`vm-\d{3}`)
