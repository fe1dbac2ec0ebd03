package kustomize_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// The component machine has the rights for what the templates make and look at, and no others but those on Machines themselves.
func TestMachineRole(t *testing.T) {
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/machine"})
	if err != nil {
		t.Fatal(err)
	}
	plurals := map[string][2]string{
		"kubevirt.io/v1 VirtualMachine":                  {"kubevirt.io", "virtualmachines"},
		"kubevirt.io/v1 VirtualMachineInstance":          {"kubevirt.io", "virtualmachineinstances"},
		"vmoperator.jdrupes.org/v1 VirtualMachine":       {"vmoperator.jdrupes.org", "vms"},
		"k8s.cni.cncf.io/v1 NetworkAttachmentDefinition": {"k8s.cni.cncf.io", "network-attachment-definitions"},
		"vitistack.io/v1alpha1 NetworkConfiguration":     {"vitistack.io", "networkconfigurations"},
		"vitistack.io/v1alpha1 Machine":                  {"vitistack.io", "machines"},
		"storage.k8s.io/v1 StorageClass":                 {"storage.k8s.io", "storageclasses"},
		"v1 PersistentVolumeClaim":                       {"", "persistentvolumeclaims"},
		"v1 Secret":                                      {"", "secrets"},
		"v1 Pod":                                         {"", "pods"},
	}
	wanted := []right{
		{"patch", "vitistack.io", "machines", ""}, {"patch", "vitistack.io", "machines/status", ""}, {"update", "vitistack.io", "machines/finalizers", ""},
	}
	want := func(apiVersion, kind string, verbs ...string) {
		p, ok := plurals[apiVersion+" "+kind]
		if !ok {
			t.Fatalf("what is the plural of %s %s?", apiVersion, kind)
		}
		for _, v := range verbs {
			wanted = append(wanted, right{v, p[0], p[1], ""})
		}
	}
	for _, m := range set.Makes {
		want(m.APIVersion, m.Kind, "get", "list", "watch", "create", "patch", "delete")
		if m.Kind == "VirtualMachine" {
			want(m.APIVersion, m.Kind, "update")
		}
	}
	for _, l := range set.Watches {
		want(l.APIVersion, l.Kind, "list", "watch")
	}
	objects := with(t, "machine")
	given := slices.Concat(
		rights(decode(t, find(t, objects, "Role", "vm-operator-machines")).(*rbacv1.Role).Rules),
		rights(decode(t, find(t, objects, "ClusterRole", "vm-operator-machines")).(*rbacv1.ClusterRole).Rules),
	)
	for _, w := range wanted {
		if !slices.Contains(given, w) {
			t.Errorf("the right %s is missing", w)
		}
	}
	for _, g := range given {
		if !slices.Contains(wanted, g) {
			t.Errorf("nothing needs the right %s", g)
		}
	}
}

// In the whole cluster the manager has the rights that it has in a namespace.
func TestMachineClusterRole(t *testing.T) {
	objects := with(t, "machine", "machine-cluster-wide")
	role := decode(t, find(t, objects, "Role", "vm-operator-machines")).(*rbacv1.Role)
	cluster := decode(t, find(t, objects, "ClusterRole", "vm-operator-machines-cluster-wide")).(*rbacv1.ClusterRole)
	if diff := cmp.Diff(role.Rules, cluster.Rules); diff != "" {
		t.Errorf("rules (-Role +ClusterRole):\n%s", diff)
	}
	binding := decode(t, find(t, objects, "ClusterRoleBinding", "vm-operator-machines-cluster-wide")).(*rbacv1.ClusterRoleBinding)
	if s := binding.Subjects; len(s) != 1 || s[0].Namespace != "vms" || s[0].Name != "vm-operator" || binding.RoleRef.Name != cluster.Name {
		t.Errorf("the binding is %+v of %+v", s, binding.RoleRef)
	}
}

// In the place of Viti Stack's operator everything has the names that it has there, and refers to them.
func TestKubeVirtOperatorNames(t *testing.T) {
	const name, namespace = "kubevirt-operator-controller-manager", "kubevirt-operator-system"
	objects := build(t, "overlays/kubevirt-operator")
	manager := decode(t, find(t, objects, "Deployment", name)).(*appsv1.Deployment)
	find(t, objects, "ServiceAccount", name)
	if got := manager.Spec.Template.Spec.ServiceAccountName; got != name || manager.Namespace != namespace {
		t.Errorf("the Deployment is in %s with the ServiceAccount %s", manager.Namespace, got)
	}
	binding := decode(t, find(t, objects, "ClusterRoleBinding", "kubevirt-operator-manager-rolebinding")).(*rbacv1.ClusterRoleBinding)
	find(t, objects, "ClusterRole", "kubevirt-operator")
	want := rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: namespace}
	if diff := cmp.Diff(want, binding.Subjects[0]); diff != "" || binding.RoleRef.Name != "kubevirt-operator" {
		t.Errorf("the binding is of %s, for (-want +is):\n%s", binding.RoleRef.Name, diff)
	}
	for _, o := range objects {
		if subjects, ok := at(o, "subjects").([]any); ok && o.GetName() != "vm-runner" {
			if s := subjects[0].(map[string]any); s["name"] != name || s["namespace"] != namespace {
				t.Errorf("%s %s is for %v", o.GetKind(), o.GetName(), s)
			}
		}
	}
}
