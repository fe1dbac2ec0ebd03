package helm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The chart is installed, upgraded with other values, refused with wrong ones, and uninstalled, on a real API server.
func TestInstall(t *testing.T) {
	r := newReleases(t)
	client, file := r.client, r.kubeconfig
	release := func(args ...string) []string { return append(args, "--kubeconfig", file, "--namespace", "vms") }
	get := func(group, version, plural, name string) *unstructured.Unstructured {
		t.Helper()
		in := client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).Namespace("vms")
		if plural == "customresourcedefinitions" {
			in = client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
		}
		o, err := in.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	deployment := func() *unstructured.Unstructured { return get("apps", "v1", "deployments", "vm-operator") }

	must(t, release("install", "machines", chart, "--create-namespace")...)
	if get("apiextensions.k8s.io", "v1", "customresourcedefinitions", "vms.vmoperator.jdrupes.org") == nil {
		t.Error("the CustomResourceDefinition is not there")
	}
	if d := deployment(); d == nil || at(d.Object, "spec.replicas") != int64(1) {
		t.Fatalf("the Deployment is %v", d)
	}
	before := deployment().GetUID()

	site := filepath.Join(t.TempDir(), "site.cue")
	if err := os.WriteFile(site, []byte("package vm\n\nsettings: disk: storageClassName: \"fast\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, release("upgrade", "machines", chart, "--set", "replicaCount=2,networkPolicy.enabled=true", "--set-file", `site.site\.cue=`+site)...)
	if d := deployment(); d.GetUID() != before || at(d.Object, "spec.replicas") != int64(2) {
		t.Errorf("after the upgrade the Deployment is %v", d)
	}
	if c := get("", "v1", "configmaps", "vm-operator"); !strings.Contains(at(c.Object, "data.site%cue").(string), `"fast"`) {
		t.Errorf("the ConfigMap is %v", c.Object["data"])
	}
	if get("networking.k8s.io", "v1", "networkpolicies", "vm-runner") == nil {
		t.Error("the NetworkPolicy is not there")
	}

	if _, stderr, err := helm(t, release("upgrade", "machines", chart, "--set", "replicaCount=none")...); err == nil || at(deployment().Object, "spec.replicas") != int64(2) {
		t.Errorf("a wrong value is taken: %s", stderr)
	}

	// Without this flag Helm keeps the values of the last release.
	must(t, release("upgrade", "machines", chart, "--reset-values")...)
	if at(deployment().Object, "spec.replicas") != int64(1) || get("networking.k8s.io", "v1", "networkpolicies", "vm-runner") != nil {
		t.Error("going back to the defaults leaves something")
	}

	must(t, release("uninstall", "machines", "--wait=hookOnly")...)
	if deployment() != nil {
		t.Error("the Deployment stays")
	}
	if get("", "v1", "persistentvolumeclaims", "vmop-image-repository") == nil {
		t.Error("the images are gone with the release")
	}
	if get("apiextensions.k8s.io", "v1", "customresourcedefinitions", "vms.vmoperator.jdrupes.org") == nil {
		t.Error("the VirtualMachines are gone with the release")
	}
}
