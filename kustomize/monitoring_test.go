package kustomize_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The Prometheus Operator whose definitions the objects are held to. Nothing of its code is used, so that it is no dependency.
const (
	prometheusOperator    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	prometheusOperatorSum = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)

// monitoringDefinitions are the files with its CustomResourceDefinitions.
func monitoringDefinitions(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", prometheusOperator).Output()
	if err != nil {
		t.Fatalf("get %s: %v\n%s", prometheusOperator, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	if module.Sum != prometheusOperatorSum {
		t.Fatalf("the sum of %s is %s, want %s", prometheusOperator, module.Sum, prometheusOperatorSum)
	}
	var files []string
	for _, name := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		files = append(files, filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+name+".yaml"))
		if _, err := os.Stat(files[len(files)-1]); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// A cluster with the Prometheus Operator takes the base with all components, and each field is one that it knows. The manager that comes of it
// works, in other namespaces, too.
func TestComponentsOnServer(t *testing.T) {
	admin(t)
	if _, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: monitoringDefinitions(t), ErrorIfPathMissing: true, MaxTime: patience}); err != nil {
		t.Fatal(err)
	}
	// The client asks the server anew which kinds it has.
	c := newCluster(t, server, server.Config)
	c.namespace("vms")
	strict := client.WithFieldValidation(c.api, "Strict")
	monitoring := 0
	for _, o := range with(t, components(t)...) {
		apply := func(o *unstructured.Unstructured) error {
			return strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("test"))
		}
		if err := apply(o); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GroupVersionKind().Group != "monitoring.coreos.com" {
			continue
		}
		monitoring++
		wrong := o.DeepCopy()
		if err := unstructured.SetNestedField(wrong.Object, "x", "spec", "notAField"); err != nil {
			t.Fatal(err)
		}
		if err := apply(wrong); err == nil {
			t.Errorf("a %s with a field that there is not is taken", o.GetKind())
		}
	}
	if monitoring != 3 {
		t.Errorf("there are %d objects for the operator, want 3", monitoring)
	}
	c.namespace("vms-elsewhere")
	m := c.start("vms")
	c.ready(m)
	for _, ns := range []string{"vms", "vms-elsewhere"} {
		c.vm(ns, "web", specWithDisk())
		c.rendered(ns, "web")
	}
	c.noForbidden(m)
}
