package controller_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// kubeVirts are KubeVirt's definitions with its own schema, see tools/kubevirt.
var kubeVirts = []string{"../tools/kubevirt/crd/kubevirt.io_virtualmachines.yaml", "../tools/kubevirt/crd/kubevirt.io_virtualmachineinstances.yaml"}

// attachments is Multus' definition, as far as it has a schema.
const attachments = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  names: {kind: NetworkAttachmentDefinition, listKind: NetworkAttachmentDefinitionList, plural: network-attachment-definitions, singular: network-attachment-definition}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {config: {type: string}}}}}}
`

// machines is a cluster with Machines.
type machines struct {
	*cluster
	engine *controller.Engine
}

// newMachines starts an engine for Machines, with KubeVirt installed or not.
func newMachines(t *testing.T, kubeVirt bool) machines {
	t.Helper()
	c := machines{cluster: newNamespace(t)}
	c.install("../kustomize/crd/vitistack.io/vitistack.io_machines.yaml", "../kustomize/crd/vitistack.io/vitistack.io_networkconfigurations.yaml")
	crd := &apiextensions.CustomResourceDefinition{}
	c.must(yaml.Unmarshal([]byte(attachments), crd))
	_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{CRDs: []*apiextensions.CustomResourceDefinition{crd}, MaxTime: deadline})
	c.must(err)
	if kubeVirt {
		c.install(kubeVirts...)
	} else {
		c.uninstallKubeVirt()
	}
	c.engine = c.start(one(machinePackage(t)))
	return c
}

func machinePackage(t *testing.T) controller.Package {
	t.Helper()
	p, err := controller.Load(cuvee.Files, nil, "", "machine")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c machines) install(files ...string) {
	c.Helper()
	_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: files, ErrorIfPathMissing: true, MaxTime: deadline})
	c.must(err)
}

// uninstallKubeVirt removes KubeVirt's definitions, and what is left of other tests with them.
func (c machines) uninstallKubeVirt() {
	c.Helper()
	for _, kind := range []string{"VirtualMachine", "VirtualMachineInstance"} {
		var left unstructured.UnstructuredList
		left.SetAPIVersion("kubevirt.io/v1")
		left.SetKind(kind + "List")
		if err := api.List(context.Background(), &left); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			c.must(err)
		}
		for _, v := range left.Items {
			c.must(client.IgnoreNotFound(api.Patch(context.Background(), &v, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		}
	}
	for _, name := range []string{"virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io"} {
		crd := &apiextensions.CustomResourceDefinition{}
		crd.Name = name
		c.must(client.IgnoreNotFound(api.Delete(context.Background(), crd)))
		c.eventually(func() string {
			if err := api.Get(context.Background(), types.NamespacedName{Name: name}, crd); apierrors.IsNotFound(err) {
				return ""
			}
			return name + " is still there"
		})
	}
}

func (c machines) machine(name, spec string) *unstructured.Unstructured {
	c.Helper()
	return c.create(`{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: %s}, spec: %s}`, name, spec)
}

func (c machines) getMachine() *unstructured.Unstructured {
	c.Helper()
	return c.get("vitistack.io/v1alpha1", "Machine", "web")
}

func (c machines) kubeVirt() *unstructured.Unstructured {
	c.Helper()
	return c.get("kubevirt.io/v1", "VirtualMachine", "web")
}

// says waits until the Machine web is in a phase, and its Ready has a reason.
func (c machines) says(phase, reason string) (message string) {
	const name = "web"
	c.Helper()
	c.eventually(func() string {
		m := c.getMachine()
		_, r, text := condition(m, "Ready")
		if at(m, "status", "phase") != phase || r != reason {
			return fmt.Sprintf("%s is %v (%s: %s), want %s (%s)", name, at(m, "status", "phase"), r, text, phase, reason)
		}
		message = text
		return ""
	})
	return message
}

// patch merges into an object, or one of its subresources.
func (c machines) patch(u *unstructured.Unstructured, subresource, patch string) {
	c.Helper()
	p := client.RawPatch(types.MergePatchType, []byte(patch))
	if subresource != "" {
		c.must(api.Status().Patch(c.Context(), u, p))
		return
	}
	c.must(api.Patch(c.Context(), u, p))
}

// printable makes KubeVirt's VirtualMachine say a status.
func (c machines) printable(status string) {
	c.Helper()
	c.patch(c.kubeVirt(), "", `{"status":{"printableStatus":"`+status+`"}}`)
}

// claimGoes waits until a claim is deleted, and does what Kubernetes' controller does then.
func (c machines) claimGoes(name string) {
	c.Helper()
	c.eventually(func() string {
		claim := c.get("v1", "PersistentVolumeClaim", name)
		if claim == nil || claim.GetDeletionTimestamp() == nil {
			return "the claim " + name + " is not deleted"
		}
		return ""
	})
	c.patch(c.get("v1", "PersistentVolumeClaim", name), "", `{"metadata":{"finalizers":null}}`)
}

// gone waits until the object web is not there.
func (c machines) gone(apiVersion, kind string) {
	const name = "web"
	c.Helper()
	c.eventually(func() string {
		if c.get(apiVersion, kind, name) != nil {
			return kind + " " + name + " is still there"
		}
		return ""
	})
}

// A Machine goes through its life: everything is made, what KubeVirt says becomes its status, and nothing is written that is not new.
func TestMachine(t *testing.T) {
	c := newMachines(t, true)
	c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	claim := c.get("v1", "PersistentVolumeClaim", "web-root")
	if size := at(claim, "spec", "resources", "requests", "storage"); size != "20Gi" {
		t.Errorf("the claim has the size %v, want 20Gi", size)
	}
	vm := c.kubeVirt()
	if got := at(vm, "spec", "runStrategy"); got != "Always" {
		t.Errorf("runStrategy is %v, want Always", got)
	}
	c.quiet()
	if got, want := at(c.getMachine(), "status", "resourceVersion"), c.kubeVirt().GetResourceVersion(); got != want {
		t.Errorf("resourceVersion in the status is %v, want %v", got, want)
	}

	c.printable("Provisioning")
	c.says("Creating", "Creating")
	vmi := c.create(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: web}, spec: {domain: {devices: {}}}}`)
	c.patch(vmi, "", `{"status":{"phase":"Running","nodeName":"node-1","interfaces":[{"name":"default","ipAddress":"192.0.2.7","ipAddresses":["192.0.2.7","fe80::1","2001:db8::7"]}]}}`)
	c.printable("Running")
	c.says("Running", "Running")
	c.eventually(func() string {
		s := at(c.getMachine(), "status")
		got := fmt.Sprint(at(c.getMachine(), "status", "vmName"), at(c.getMachine(), "status", "vmiName"), at(c.getMachine(), "status", "nodeName"), at(c.getMachine(), "status", "ipAddresses"))
		if want := "web web node-1 [192.0.2.7 2001:db8::7]"; strings.Join(strings.Fields(got), " ") != want && got != "webwebnode-1[192.0.2.7 2001:db8::7]" {
			return fmt.Sprintf("the status is %v", s)
		}
		return ""
	})

	// What concerns nobody brings no write.
	c.quiet()
	mark := c.mark()
	c.patch(c.kubeVirt(), "", `{"status":{"observedGeneration":7}}`)
	c.quiet()
	for _, r := range c.writes(mark) {
		t.Errorf("%s %s %s was written, though nothing had changed", r.Verb, r.Resource, r.Name)
	}

	// Who stops the VirtualMachine finds it stopped.
	c.patch(c.kubeVirt(), "", `{"spec":{"runStrategy":"Halted"}}`)
	c.printable("Stopping")
	c.printable("Stopped")
	c.says("Stopped", "Stopped")
	c.quiet()
	if got := at(c.kubeVirt(), "spec", "runStrategy"); got != "Halted" {
		t.Errorf("runStrategy is %v after it was stopped, want Halted", got)
	}
	c.patch(c.kubeVirt(), "", `{"spec":{"runStrategy":"Always"}}`)
	c.printable("Starting")
	c.says("Stopped", "Stopped")
	c.printable("Running")
	c.says("Running", "Running")
	c.printable("CrashLoopBackOff")
	c.says("Failed", "VMFailed")
}

// What was plugged into a VirtualMachine stays when the Machine changes.
func TestMachineHotPlug(t *testing.T) {
	c := newMachines(t, true)
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.quiet()
	vm := c.kubeVirt()
	c.must(api.Patch(t.Context(), vm, client.RawPatch(types.JSONPatchType, []byte(`[
		{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":"extra","persistentVolumeClaim":{"claimName":"extra","hotpluggable":true}}},
		{"op":"add","path":"/spec/template/spec/domain/devices/disks/-","value":{"name":"extra","disk":{"bus":"scsi"},"serial":"extra"}}]`)), client.FieldOwner("virt-api")))
	c.quiet()
	c.patch(m, "", `{"spec":{"resources":{"cpu":{"cores":2}}}}`)
	c.eventually(func() string {
		if got := at(c.kubeVirt(), "spec", "template", "spec", "domain", "cpu", "cores"); got != int64(2) {
			return fmt.Sprintf("the VirtualMachine has %v cores, want 2", got)
		}
		return ""
	})
	vm = c.kubeVirt()
	volumes, _ := at(vm, "spec", "template", "spec", "volumes").([]any)
	disks, _ := at(vm, "spec", "template", "spec", "domain", "devices", "disks").([]any)
	if len(volumes) != 2 || len(disks) != 2 || disks[1].(map[string]any)["serial"] != "extra" {
		t.Errorf("what was plugged in is gone: volumes %v, disks %v", volumes, disks)
	}
}

// between has something happen just before the next requests that change what has a text in its path, or before the engine has their
// answers, and counts those.
type between struct {
	http.RoundTripper
	path             string
	happen, answered chan func()
	writes           atomic.Int64
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, b.path) {
		return b.RoundTripper.RoundTrip(r)
	}
	b.writes.Add(1)
	one := func(of chan func()) {
		select {
		case do := <-of:
			do()
		default:
		}
	}
	one(b.happen)
	defer one(b.answered)
	return b.RoundTripper.RoundTrip(r)
}

// startBetween starts an engine before whose requests something can happen.
func (c *cluster) startBetween(path string, packages controller.Source) *between {
	c.Helper()
	config := rest.CopyConfig(server.Config)
	c.agent = "engine-" + c.namespace + "-between"
	config.UserAgent = c.agent
	hc, err := rest.HTTPClientFor(config)
	c.must(err)
	b := &between{RoundTripper: hc.Transport, path: path, happen: make(chan func(), 2), answered: make(chan func(), 2)}
	hc.Transport = b
	c.startWith(config, hc, packages)
	return b
}

// A volume that is plugged in while a change of the Machine is under way stays, too.
func TestMachineHotPlugMeanwhile(t *testing.T) {
	c := newMachines(t, true)
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.quiet()
	c.stop()
	b := c.startBetween("/kubevirt.io/", one(machinePackage(t)))
	c.quiet()
	plug := func(name string) func() {
		return func() {
			vm := &unstructured.Unstructured{}
			vm.SetAPIVersion("kubevirt.io/v1")
			vm.SetKind("VirtualMachine")
			vm.SetNamespace(c.namespace)
			vm.SetName("web")
			if err := api.Patch(context.Background(), vm, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[
				{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":%[1]q,"persistentVolumeClaim":{"claimName":%[1]q,"hotpluggable":true}}},
				{"op":"add","path":"/spec/template/spec/domain/devices/disks/-","value":{"name":%[1]q,"disk":{"bus":"scsi"}}}]`, name)), client.FieldOwner("virt-api")); err != nil {
				t.Error(err)
			}
		}
	}
	// One is plugged in before the first request of the pass, the other before the second one, which takes fields back.
	b.happen <- plug("first")
	b.happen <- plug("second")
	c.patch(m, "", `{"spec":{"resources":{"cpu":{"cores":2}}}}`)
	c.eventually(func() string {
		vm := c.kubeVirt()
		if got := at(vm, "spec", "template", "spec", "domain", "cpu", "cores"); got != int64(2) {
			return fmt.Sprintf("the VirtualMachine has %v cores, want 2", got)
		}
		return ""
	})
	c.quiet()
	vm := c.kubeVirt()
	volumes, _ := at(vm, "spec", "template", "spec", "volumes").([]any)
	disks, _ := at(vm, "spec", "template", "spec", "domain", "devices", "disks").([]any)
	if len(b.happen) != 0 || len(volumes) != 3 || len(disks) != 3 {
		t.Errorf("what was plugged in is gone: volumes %v, disks %v", volumes, disks)
	}
	// Where nothing is changed meanwhile, fields are taken back with two requests, as ever.
	before := b.writes.Load()
	c.patch(vm, "", `{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":7}}}}}}`)
	c.eventually(func() string {
		if got := at(c.kubeVirt(), "spec", "template", "spec", "domain", "cpu", "cores"); got != int64(2) {
			return fmt.Sprintf("the VirtualMachine has %v cores, want 2", got)
		}
		return ""
	})
	c.quiet()
	if n := b.writes.Load() - before; n != 2 {
		t.Errorf("taking a field back took %d requests, want 2", n)
	}
}

// user-data under a key that KubeVirt does not know is copied, and follows its Secret.
func TestMachineUserData(t *testing.T) {
	c := newMachines(t, true)
	c.machine("web", "{template: small, cloudInit: {secretRef: {name: mine, key: cloud.cfg}}}")
	c.says("Failed", "SecretNotFound")
	for _, data := range []string{"b25l", "dHdv"} {
		if data == "b25l" {
			c.create(`{apiVersion: v1, kind: Secret, metadata: {name: mine}, data: {cloud.cfg: %s}}`, data)
		} else {
			c.patch(c.get("v1", "Secret", "mine"), "", `{"data":{"cloud.cfg":"`+data+`"}}`)
		}
		c.eventually(func() string {
			if got := at(c.get("v1", "Secret", "web-cloudinit"), "data", "userdata"); got != data {
				return fmt.Sprintf("the Secret has %v, want %s", got, data)
			}
			return ""
		})
	}
}

// A Machine is deleted in stages, each after the one before.
func TestMachineDeletion(t *testing.T) {
	c := newMachines(t, true)
	c.create(`{apiVersion: vitistack.io/v1alpha1, kind: NetworkConfiguration, metadata: {name: prod}, spec: {vlan: 100}}`)
	m := c.machine("web", "{template: small, disks: [{name: data, size: 1Gi}], networks: [{name: eth0, networkName: prod}]}")
	c.says("Creating", "Creating")
	// A disk that is taken out leaves its claim behind until the Machine goes.
	c.patch(m, "", `{"spec":{"disks":[]}}`)
	c.quiet()
	hold := func(apiVersion, kind, name string) {
		c.patch(c.get(apiVersion, kind, name), "", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	}
	free := func(apiVersion, kind, name string) {
		c.patch(c.get(apiVersion, kind, name), "", `{"metadata":{"finalizers":null}}`)
	}
	deleting := func(apiVersion, kind, name string, want bool) {
		t.Helper()
		c.eventually(func() string {
			u := c.get(apiVersion, kind, name)
			if u == nil || (u.GetDeletionTimestamp() != nil) != want {
				return fmt.Sprintf("%s %s is gone, or is deleted too early or too late: want deletion %v", kind, name, want)
			}
			return ""
		})
	}
	hold("kubevirt.io/v1", "VirtualMachine", "web")
	hold("v1", "PersistentVolumeClaim", "web-root")
	hold("v1", "PersistentVolumeClaim", "web-data")
	hold("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "web-eth0")
	c.must(api.Delete(t.Context(), m))

	deleting("kubevirt.io/v1", "VirtualMachine", "web", true)
	c.quiet()
	deleting("v1", "PersistentVolumeClaim", "web-root", false)
	free("kubevirt.io/v1", "VirtualMachine", "web")
	deleting("v1", "PersistentVolumeClaim", "web-root", true)
	deleting("v1", "PersistentVolumeClaim", "web-data", true)
	c.quiet()
	deleting("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "web-eth0", false)
	free("v1", "PersistentVolumeClaim", "web-root")
	free("v1", "PersistentVolumeClaim", "web-data")
	deleting("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "web-eth0", true)
	if c.getMachine() == nil {
		t.Error("the Machine is gone before what it made")
	}
	free("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "web-eth0")
	c.gone("vitistack.io/v1alpha1", "Machine")
}

// Where nothing removes a VirtualMachine any more, an annotation ends the waiting.
func TestMachineForcedDeletion(t *testing.T) {
	c := newMachines(t, true)
	m := c.machine("web", "{template: small}")
	c.says("Creating", "Creating")
	c.patch(c.kubeVirt(), "", `{"metadata":{"finalizers":["kubevirt.io/virtualMachineControllerFinalize"]}}`)
	c.must(api.Delete(t.Context(), m))
	c.quiet()
	c.patch(c.getMachine(), "", `{"metadata":{"annotations":{"machine.vitistack.io/force-cleanup":"true"}}}`)
	c.gone("vitistack.io/v1alpha1", "Machine")
	if vm := c.kubeVirt(); vm == nil || vm.GetDeletionTimestamp() == nil {
		t.Error("the VirtualMachine is not being deleted")
	}
}

// Without KubeVirt a Machine says so, and goes on when it is there. One can be deleted whose KubeVirt is gone.
func TestMachineWithoutKubeVirt(t *testing.T) {
	c := newMachines(t, false)
	c.machine("web", "{template: small}")
	c.says("Creating", "KubeVirtApiError")
	c.install(kubeVirts...)
	c.says("Creating", "Creating")
	if c.kubeVirt() == nil {
		t.Error("there is no VirtualMachine")
	}
	c.uninstallKubeVirt()
	c.must(api.Delete(t.Context(), c.getMachine()))
	c.claimGoes("web-root")
	c.gone("vitistack.io/v1alpha1", "Machine")
}

// The same on Cuvee: a Machine is a VirtualMachine of our own.
func TestMachineOnCuvee(t *testing.T) {
	c := newMachines(t, true)
	c.create(`{apiVersion: vitistack.io/v1alpha1, kind: NetworkConfiguration, metadata: {name: prod}, spec: {vlan: 100}}`)
	m := c.machine("web", "{template: small, provider: cuvee, networks: [{name: eth0}, {name: eth1, networkName: prod, macAddress: '52:54:00:12:34:56'}]}")
	c.says("Creating", "Creating")
	vm := c.vm("web")
	if state := at(vm, "spec", "vm", "state"); state != "Running" {
		t.Errorf("the VirtualMachine is to be %v, want Running", state)
	}
	if got := vm.GetAnnotations()["cuvee-vm.github.io/data-belongs-to"]; got != "owner" {
		t.Errorf("the runner's data belongs to %q, want the owner", got)
	}
	// The guest's own name for its address in the pod's network is of no use to others.
	c.patch(vm, "status", `{"status":{"nodeName":"node-1","guest":{"interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","addresses":["10.0.2.15"]},{"name":"eth1","mac":"52:54:00:12:34:56","addresses":["192.0.2.7","fe80::1"]}]}}}`)
	c.cuveeSays("True", "Running", "", true)
	c.says("Running", "Running")
	pod := c.create(podManifest, "web")
	c.must(api.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"status":{"podIP":"10.1.0.9","podIPs":[{"ip":"10.1.0.9"}]}}`))))
	c.eventually(func() string {
		if got := fmt.Sprint(at(c.getMachine(), "status", "ipAddresses")); got != "[10.1.0.9 192.0.2.7]" {
			return fmt.Sprintf("the addresses are %s, want [10.1.0.9 192.0.2.7]", got)
		}
		return ""
	})
	if got := at(c.getMachine(), "status", "nodeName"); got != "node-1" {
		t.Errorf("the node is %v, want node-1", got)
	}
	c.must(api.Delete(t.Context(), m))
	c.claimGoes("web-root")
	c.gone("vitistack.io/v1alpha1", "Machine")
	c.gone("vmoperator.jdrupes.org/v1", "VirtualMachine")
}

// metric is the value of a metric, or the number of a histogram's observations; -1 if there is none with these labels.
func metric(t *testing.T, e *controller.Engine, name string, labels map[string]string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			if f.GetName() == name && maps.Equal(has, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// The metrics of Machines have the names and labels that they have elsewhere, and count what has happened once.
func TestMachineMetrics(t *testing.T) {
	c := newMachines(t, true)
	want := func(e *controller.Engine, value float64, name string, labels ...string) {
		t.Helper()
		set := map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			set[labels[i]] = labels[i+1]
		}
		c.eventually(func() string {
			if got := metric(t, e, "kubevirt_operator_"+name, set); got != value {
				return fmt.Sprintf("%s%v is %v, want %v", name, set, got, value)
			}
			return ""
		})
	}
	web := c.machine("web", "{template: huge}")
	want(c.engine, 1, "machines_total", "phase", "Failed", "template", "huge")
	want(c.engine, 1, "reconciliation_errors_total", "controller", "Machine", "error_type", "TemplateNotFound")
	c.patch(web, "", `{"spec":{"template":"small"}}`)
	want(c.engine, 1, "machines_total", "phase", "Creating", "template", "small")
	want(c.engine, -1, "machines_total", "phase", "Failed", "template", "huge")
	c.printable("Running")
	want(c.engine, 1, "virtual_machines_total", "status", "Running")

	c.must(api.Status().Patch(t.Context(), c.get("v1", "PersistentVolumeClaim", "web-root"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`))))
	want(c.engine, 1, "storage_provisioning_duration_seconds", "storage_class", "default")

	c.machine("net", "{template: small, networks: [{name: eth0, networkName: prod}]}")
	want(c.engine, 1, "network_configuration_errors_total", "network_name", "prod")
	want(c.engine, 1, "reconciliation_errors_total", "controller", "Machine", "error_type", "NetworkConfigurationNotFound")
	c.quiet()
	want(c.engine, 1, "reconciliation_errors_total", "controller", "Machine", "error_type", "NetworkConfigurationNotFound")
	if n := metric(t, c.engine, "kubevirt_operator_reconciliation_duration_seconds", map[string]string{"controller": "Machine"}); n < 4 {
		t.Errorf("%v passes were measured, want some", n)
	}

	// Another manager goes on, and counts nothing again.
	c.stop()
	e := c.start(one(machinePackage(t)))
	want(e, 1, "machines_total", "phase", "Running", "template", "small")
	want(e, 1, "machines_total", "phase", "Failed", "template", "small")
	c.quiet()
	want(e, -1, "reconciliation_errors_total", "controller", "Machine", "error_type", "NetworkConfigurationNotFound")
	want(e, -1, "storage_provisioning_duration_seconds", "storage_class", "default")
}
