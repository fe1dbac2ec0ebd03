package kustomize_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// multus is the definition of NetworkAttachmentDefinition, as far as it matters.
const multus = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  names: {kind: NetworkAttachmentDefinition, listKind: NetworkAttachmentDefinitionList, plural: network-attachment-definitions, singular: network-attachment-definition}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {config: {type: string}}}}}}}
`

// machineServer is an API server for the test alone, with the definitions of Machines, and of what they become: a manager without rights on
// Machines asks for them in vain where they are defined.
func machineServer(t *testing.T) *testserver.Server {
	t.Helper()
	testserver.Need(t, server)
	s, err := testserver.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := newCluster(t, s, s.Config)
	c.defineMachines()
	c.served()
	return s
}

// defineMachines installs them, and returns when they are served.
func (c *cluster) defineMachines() {
	c.Helper()
	objects := slices.Concat(build(c.T, "crd"), build(c.T, "crd/vitistack.io"))
	files, err := filepath.Glob("../tools/kubevirt/crd/*.yaml")
	c.must(err)
	texts := []string{multus}
	for _, f := range files {
		text, err := os.ReadFile(f)
		c.must(err)
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		c.must(yaml.Unmarshal([]byte(text), &o.Object))
		objects = append(objects, o)
	}
	c.apply("", objects...)
	for _, o := range objects {
		c.eventually(func() string {
			conditions, _ := at(c.get(o.GetAPIVersion(), o.GetKind(), "", o.GetName()), "status", "conditions").([]any)
			for _, item := range conditions {
				if has, ok := item.(map[string]any); ok && has["type"] == "Established" && has["status"] == "True" {
					return ""
				}
			}
			return o.GetName() + " is not established"
		})
	}
	// Admission looks for new kinds once in half a minute, and until then refuses objects with an owner of such a kind.
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owned-", Namespace: "default", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "vitistack.io/v1alpha1", Kind: "Machine", Name: "none", UID: "none", BlockOwnerDeletion: ptr.To(true)},
	}}}
	c.eventually(func() string { return text(c.api.Create(c.Context(), owned.DeepCopy(), client.DryRunAll)) })
}

// machineSite is what the base becomes with components, in a namespace.
func machineSite(t *testing.T, namespace string, components ...string) []*unstructured.Unstructured {
	t.Helper()
	site := "kind: Kustomization\nnamespace: " + namespace + "\nresources: [../base]\ncomponents:\n"
	for _, name := range components {
		site += "- ../components/" + name + "\n"
	}
	return inMemory(t, "/", site)
}

// create makes the object of a manifest in a namespace.
func (c *cluster) create(namespace, manifest string) {
	c.Helper()
	o := &unstructured.Unstructured{}
	c.must(yaml.Unmarshal([]byte(manifest), &o.Object))
	c.apply(namespace, o)
}

// machineIs waits until a Machine is in a phase, and its Ready has a reason.
func (c *cluster) machineIs(namespace, name, phase, reason string) {
	c.Helper()
	c.eventually(func() string {
		m := c.get("vitistack.io/v1alpha1", "Machine", namespace, name)
		conditions, _ := at(m, "status", "conditions").([]any)
		for _, item := range conditions {
			if has, ok := item.(map[string]any); ok && has["type"] == "Ready" && has["reason"] == reason && at(m, "status", "phase") == phase {
				return ""
			}
		}
		return fmt.Sprintf("%s is not %s (%s): %v", name, phase, reason, at(m, "status"))
	})
}

// liveMachines takes Machines of both backends through their lives, and changes what they have become in ways that the manager sets right.
func (c *cluster) liveMachines(ns string) {
	c.Helper()
	s := &shell{cluster: c}
	s.protectsNoClaims(ns)
	c.create("", "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: "+ns+"}, provisioner: example.com/none}")
	c.create(ns, "{apiVersion: vitistack.io/v1alpha1, kind: NetworkConfiguration, metadata: {name: prod}, spec: {vlan: 100}}")
	c.create(ns, "{apiVersion: v1, kind: Secret, metadata: {name: mine}, stringData: {cloud.cfg: text}}")
	const rest = "networks: [{name: eth0, networkName: prod}]"
	c.create(ns, "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: one}, spec: {template: small, disks: [{name: root, storageClass: "+ns+"}], cloudInit: {secretRef: {name: mine, key: cloud.cfg}}, "+rest+"}}")
	c.create(ns, "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: two}, spec: {template: small, provider: cuvee, cloudInit: {userData: text}, "+rest+"}}")
	c.machineIs(ns, "one", "Creating", "Creating")
	c.machineIs(ns, "two", "Creating", "Creating")
	made := []struct{ apiVersion, kind, name string }{
		{"v1", "PersistentVolumeClaim", "one-root"}, {"v1", "Secret", "one-cloudinit"}, {"k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "one-eth0"},
		{"kubevirt.io/v1", "VirtualMachine", "one"}, {"vmoperator.jdrupes.org/v1", "VirtualMachine", "two"},
	}
	for _, by := range []string{"kubectl-edit", "kubectl-client-side-apply"} {
		c.T.Log("a change by " + by + " is taken back")
		for _, o := range made {
			c.relabelAs(ns, "vitistack.io/managed-by", o.apiVersion, o.kind, o.name, by)
		}
	}
	c.T.Log("so is one that cannot be merged")
	c.change(ns, "vmoperator.jdrupes.org/v1", "VirtualMachine", "two", `[{"op":"remove","path":"/spec/vm/cpuTopology"},{"op":"add","path":"/spec/vm/maximumCpus","value":4}]`,
		func(o *unstructured.Unstructured) bool {
			return at(o, "spec", "vm", "cpuTopology") != nil && at(o, "spec", "vm", "maximumCpus") == nil
		})
	for _, name := range []string{"one", "two"} {
		c.must(c.api.Delete(c.Context(), c.get("vitistack.io/v1alpha1", "Machine", ns, name)))
		c.eventually(func() string {
			if m := c.get("vitistack.io/v1alpha1", "Machine", ns, name); m != nil {
				return fmt.Sprintf("%s is there: %v", name, at(m, "status", "conditions"))
			}
			return ""
		})
	}
	// Nothing but the API server is here: what only a garbage collector removes stays.
	for _, o := range made[:1] {
		if c.get(o.apiVersion, o.kind, ns, o.name) != nil {
			c.Errorf("%s %s is there", o.kind, o.name)
		}
	}
}

// TestMachineRoleInUse has a manager with the rights of the base and the component do all that it does for Machines, in its namespace and in
// another one when it is that of the whole cluster. It asks for nothing that it may not do, and there is no right that nothing needs.
func TestMachineRoleInUse(t *testing.T) {
	cases := map[string]struct {
		components []string
		// in is the namespace of the Machines, and roles are what the components give for it.
		in    string
		roles map[string]string
	}{
		"Namespace": {[]string{"machine"}, "machines-namespace", map[string]string{"Role": "vm-operator-machines", "ClusterRole": "vm-operator-machines"}},
		"Cluster":   {[]string{"cluster-wide", "machine", "machine-cluster-wide"}, "machines-other", map[string]string{"ClusterRole": "vm-operator-machines-cluster-wide"}},
	}
	s := machineServer(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, s, s.Config)
			ns := "machines-" + strings.ToLower(name)
			objects := machineSite(t, ns, tc.components...)
			m := c.install(ns, objects)
			c.ready(m)
			if tc.in != ns {
				c.namespace(tc.in)
			}
			c.liveMachines(tc.in)
			// Watches are in the audit log when they have ended.
			c.must(m.Stop(t.Context()))
			c.noForbidden(m)

			// A list of the whole cluster has no namespace.
			needed := slices.Concat(needs(c.requests(m), tc.in), needs(c.requests(m), ""))
			needed = append(needed,
				right{"update", "vitistack.io", "machines/finalizers", ""}, // as objects name their Machine as owner
				right{"update", "kubevirt.io", "virtualmachines", ""},      // only KubeVirt's webhooks refuse what cannot be merged
			)
			for kind, role := range tc.roles {
				o := find(t, objects, kind, role)
				text, err := yaml.Marshal(o.Object)
				c.must(err)
				var rules rbacv1.ClusterRole
				c.must(yaml.Unmarshal(text, &rules))
				for _, r := range rights(rules.Rules) {
					if !slices.ContainsFunc(needed, r.allows) {
						t.Errorf("nothing needs the right %s of the %s %s", r, kind, role)
					}
				}
			}
		})
	}
}

// Without the component, and without one of its rules, the manager says what it lacks, is ready, and works on its VMs; with it, it goes on.
func TestMachineRightsComeLater(t *testing.T) {
	s := machineServer(t)
	c := newCluster(t, s, s.Config)
	const ns = "machines-later"
	all := machineSite(t, ns, "machine")
	ofMachines := func(o *unstructured.Unstructured) bool { return o.GetName() == "vm-operator-machines" }
	m := c.install(ns, slices.DeleteFunc(slices.Clone(all), ofMachines))
	c.create(ns, "{apiVersion: vitistack.io/v1alpha1, kind: Machine, metadata: {name: one}, spec: {template: small, provider: cuvee}}")
	says := func(part string) {
		t.Helper()
		c.eventually(func() string {
			if !strings.Contains(m.Log(), part) {
				return "the log does not say: " + part
			}
			return ""
		})
	}
	says(`"message":"a right is missing for a template package, and nothing is done for its resources; the others are worked on","err":"WaitingForWatch: cannot watch objects of the kind `)
	c.ready(m)
	c.vm(ns, "web", specWithDisk())
	c.rendered(ns, "web")
	if problem := m.probe("/readyz"); problem != "" {
		t.Error(problem)
	}
	if !slices.ContainsFunc(c.requests(m), func(r testserver.Request) bool { return r.Resource == "machines" && r.Code == http.StatusForbidden }) {
		t.Error("Machines are not forbidden")
	}
	// One rule is missing still.
	last := slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return !ofMachines(o) })
	first := slices.DeleteFunc(slices.Clone(last), func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetKind(), "Cluster") })
	c.apply(ns, first...)
	c.machineSays(ns, "WaitingForWatch", "StorageClass")
	c.apply(ns, last...)
	c.machineIs(ns, "one", "Creating", "Creating")
	says(`"message":"the rights for a template package are there","controller":"Machine"`)
	c.ready(m)
}

// machineSays waits until Ready of the Machine one has a reason, and a message with a word.
func (c *cluster) machineSays(ns, reason, word string) {
	c.Helper()
	c.eventually(func() string {
		conditions, _ := at(c.get("vitistack.io/v1alpha1", "Machine", ns, "one"), "status", "conditions").([]any)
		for _, item := range conditions {
			if has, ok := item.(map[string]any); ok && has["type"] == "Ready" && has["reason"] == reason && strings.Contains(fmt.Sprint(has["message"]), word) {
				return ""
			}
		}
		return fmt.Sprintf("Ready does not say %s with %s: %v", reason, word, conditions)
	})
}
