package helm

import (
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// confineRunner is the policy of the whole cluster.
const confineRunner = "cuvee-confine-runner"

// releases installs releases of the chart in one cluster.
type releases struct {
	*testing.T
	kubeconfig string
	client     dynamic.Interface
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	testserver.Need(t, server)
	admin, err := server.User("helm", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	r := &releases{T: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if r.client, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	if err := testserver.WriteKubeconfig(r.kubeconfig, admin); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs a command for a release, which has a namespace of its name.
func (r *releases) run(release, command string, args ...string) {
	r.Helper()
	must(r.T, append([]string{command, release, "--kubeconfig", r.kubeconfig, "--namespace", release}, args...)...)
}

func (r *releases) policies() dynamic.ResourceInterface {
	return r.client.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"})
}

// noPolicy removes that of another test.
func (r *releases) noPolicy() {
	r.Helper()
	if err := r.policies().Delete(r.Context(), confineRunner, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.Fatal(err)
	}
}

// policy is who has made the policy, and how many versions it has had.
func (r *releases) policy() (owner string, generation int64) {
	r.Helper()
	o, err := r.policies().Get(r.Context(), confineRunner, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return o.GetAnnotations()["meta.helm.sh/release-namespace"], o.GetGeneration()
}

// What is there once for the cluster is made by the first release, is changed by it only, and stays when it goes.
func TestSharedObjects(t *testing.T) {
	r := newReleases(t)
	r.noPolicy()
	first := func(doing string) {
		t.Helper()
		if owner, generation := r.policy(); owner != "shared-a" || generation != 1 {
			t.Errorf("after %s the policy is of %q, generation %d", doing, owner, generation)
		}
	}
	r.run("shared-a", "install", chart, "--create-namespace")
	first("the first release")
	r.run("shared-b", "install", chart, "--create-namespace")
	first("a second one")
	r.run("shared-b", "upgrade", chart)
	r.run("shared-a", "upgrade", chart)
	first("upgrades")
	r.run("shared-a", "uninstall")
	first("uninstalling the first")
	r.run("shared-a", "install", chart)
	first("installing it again")
}

// A policy that an administrator has applied stays that of the administrator.
func TestSharedObjectsOfAdministrator(t *testing.T) {
	r := newReleases(t)
	r.noPolicy()
	o := objects(t, "")["ValidatingAdmissionPolicy "+confineRunner]
	if err := unstructured.SetNestedField(o.Object, "Ignore", "spec", "failurePolicy"); err != nil {
		t.Fatal(err)
	}
	o.SetAnnotations(nil)
	if _, err := r.policies().Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.run("shared-c", "install", chart, "--create-namespace")
	if owner, generation := r.policy(); owner != "" || generation != 1 {
		t.Errorf("the policy is of %q, generation %d", owner, generation)
	}
}
