package plan_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/plan"
	"github.com/cuvee-vm/cuvee/controller/templateset"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// deadline is how long a test waits for something to become true: the machine may be busy.
const deadline = time.Minute

var server *testserver.Server

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(testserver.Main(m, &server))
}

// cluster is a namespace with VMs that an engine has made. It has ended: nothing changes but what a test changes.
type cluster struct {
	*testing.T
	api       client.Client
	namespace string
	options   controller.Options
	current   controller.Package
}

// agent is what the plans call themselves.
const agent = "planner"

func newCluster(t *testing.T, namespace string) *cluster {
	t.Helper()
	testserver.Need(t, server)
	c := &cluster{T: t, namespace: namespace, current: site(t, "")}
	_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{
		Paths: []string{"../../kustomize/crd/vmoperator.jdrupes.org_vms.yaml"}, ErrorIfPathMissing: true, MaxTime: deadline,
	})
	c.must(err)
	c.api, err = client.New(server.Config, client.Options{})
	c.must(err)
	c.must(c.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	c.options = c.as(agent)
	return c
}

// as are options for a program of some name.
func (c *cluster) as(name string) controller.Options {
	c.Helper()
	config := rest.CopyConfig(server.Config)
	config.UserAgent = name
	hc, err := rest.HTTPClientFor(config)
	c.must(err)
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	c.must(err)
	return controller.Options{
		Config: config, HTTPClient: hc, Mapper: mapper, Namespaces: []string{c.namespace}, OwnNamespace: c.namespace, Log: logr.Discard(),
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// site compiles a site of one file, laid over what is built in.
func site(t *testing.T, text string) controller.Package {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "site.cue"), []byte("package vm\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := templateset.ReadDirectory(cuvee.Files, dir)
	if err != nil {
		t.Fatal(err)
	}
	set, err := files.Load()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(set.Packages, func(p controller.Package) bool { return p.Name == "vm" })
	if i < 0 {
		t.Fatal("there are no templates of VMs")
	}
	return set.Packages[i]
}

// run lets an engine work until nothing more is to be done for the VMs.
func (c *cluster) run() {
	c.Helper()
	o := c.as("engine-" + c.namespace)
	o.Source = controller.Fixed{c.current}
	e, err := controller.New(o)
	c.must(err)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Start(ctx); err != nil {
			c.Error(err)
		}
	}()
	defer func() { cancel(); <-done }()
	testserver.Eventually(c, deadline, func() string {
		p := c.plan(c.current)
		if p.Summary.Changes == 0 && c.reported() {
			return ""
		}
		return "the engine does not come to an end:\n" + text(c.T, p)
	})
}

// reported says that every VM has a status.
func (c *cluster) reported() bool {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("vmoperator.jdrupes.org/v1")
	list.SetKind("VirtualMachineList")
	c.must(c.api.List(c.Context(), list, client.InNamespace(c.namespace)))
	for _, vm := range list.Items {
		if _, ok, _ := unstructured.NestedSlice(vm.Object, "status", "conditions"); !ok {
			return false
		}
	}
	return true
}

func (c *cluster) object(manifest string, args ...any) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	c.must(yaml.Unmarshal(fmt.Appendf(nil, manifest, args...), &u.Object))
	u.SetNamespace(c.namespace)
	return u
}

func (c *cluster) create(manifest string, args ...any) {
	c.Helper()
	c.must(c.api.Create(c.Context(), c.object(manifest, args...), client.FieldOwner("test")))
}

// vm is a VM with one disk.
const vm = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  vm:
    maximumRam: %s
    networks: []
    disks:
    - volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}
`

// plan plans for all VMs, with those of some manifests in the place of theirs.
func (c *cluster) plan(candidate controller.Package, manifests ...*unstructured.Unstructured) *plan.Plan {
	c.Helper()
	view, err := controller.NewView(c.Context(), c.options, c.current, candidate)
	c.must(err)
	p, err := plan.Make(c.Context(), view, c.current, candidate, plan.Subjects(view, manifests...))
	c.must(err)
	return p
}

func text(t *testing.T, p *plan.Plan) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// see compares what a plan says with what it should.
func (c *cluster) see(p *plan.Plan, want string) {
	c.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), text(c.T, p)); diff != "" {
		c.Errorf("the plan is not what it should be (-want +got):\n%s\n%s", diff, text(c.T, p))
	}
}

// nothingWritten looks into the audit log.
func (c *cluster) nothingWritten() {
	c.Helper()
	writes, err := server.Since(0, func(r testserver.Request) bool { return r.Agent == agent && r.IsWrite() })
	c.must(err)
	if len(writes) > 0 {
		c.Errorf("a plan has written: %v", writes)
	}
	reads, err := server.Since(0, func(r testserver.Request) bool { return r.Agent == agent })
	c.must(err)
	if len(reads) == 0 {
		c.Error("the audit log has no request of the plan at all")
	}
}

func TestPlan(t *testing.T) {
	c := newCluster(t, "plan")
	for _, name := range []string{"db", "mail", "web"} {
		c.create(vm, name, "1Gi")
	}
	c.run()
	c.see(c.plan(c.current), "3 VMs: 3 would not change\n")
	c.see(c.plan(site(t, `objects: statefulSet: metadata: labels: site: "lab"`)), `
3 VirtualMachines (db, mail, web) would change:
  ~ StatefulSet <name>
      + metadata.labels.site: "lab"

3 VMs: 3 would change; objects: 3 changed
`)
	if p := c.plan(c.current, c.object(vm, "web", "2Gi"), c.object(vm, "new", "1Gi")); p.Summary.Changes != 2 || p.Summary.Resources != 4 {
		t.Errorf("a changed VM and a new one give the plan\n%s", text(t, p))
	}
	c.nothingWritten()
}

// What the templates refuse already is told from what they would refuse.
func TestPlanInvalid(t *testing.T) {
	c := newCluster(t, "plan-invalid")
	c.create(vm, "web", "1Gi")
	refusing := site(t, `faults: site: {path: "spec.vm", message: "is not wanted"}`)
	c.see(c.plan(refusing), `
VirtualMachine web would become invalid; nothing of it would be touched:
  spec.vm: is not wanted

1 VM: would become invalid
`)
	c.current = refusing
	c.see(c.plan(refusing), `
VirtualMachine web is not valid, and would not be:
  spec.vm: is not wanted

1 VM: stay invalid
`)
	// One that was valid without the change.
	c.current = site(t, `if len(input.spec.vm.networks) > 0 {faults: site: {path: "spec.vm.networks", message: "are not wanted"}}`)
	changed := c.object(vm, "web", "1Gi")
	c.must(unstructured.SetNestedSlice(changed.Object, []any{map[string]any{"user": map[string]any{}}}, "spec", "vm", "networks"))
	if p := c.plan(c.current, changed); p.Summary.Invalid != 1 {
		t.Errorf("a VM that becomes invalid by its change gives the plan\n%s", text(t, p))
	}
}
