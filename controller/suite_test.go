package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
)

// deadline is how long a test waits for something to become true: the machine may be busy.
const deadline = time.Minute

// The API server that all tests of this package share; each has a namespace of its own.
var (
	apiConfig  *rest.Config
	api        client.Client
	noServer   string
	auditLog   string
	namespaces int
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		noServer = "KUBEBUILDER_ASSETS is not set to a directory with etcd and kube-apiserver: run make kube, then make test"
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "cuvee-apiserver")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	auditLog = dir + "/audit.log"
	const policy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}`
	if err := os.WriteFile(dir+"/policy.json", []byte(policy), 0o600); err != nil {
		panic(err)
	}
	if os.Getenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT") == "" {
		if err := os.Setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "2m"); err != nil {
			panic(err)
		}
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../kustomize/crd/vmoperator.jdrupes.org_vms.yaml"}, ErrorIfCRDPathMissing: true}
	env.ControlPlane.GetAPIServer().Configure().Append("audit-policy-file", dir+"/policy.json").Append("audit-log-path", auditLog)
	if apiConfig, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop API server:", err)
		}
	}()
	apiConfig.QPS = -1
	if api, err = client.New(apiConfig, client.Options{}); err != nil {
		panic(err)
	}
	return m.Run()
}

// cluster is a namespace on the API server, with an engine that works in it.
type cluster struct {
	*testing.T
	namespace string
	// agent is the user agent of the engine.
	agent string
	stop  func()
}

// newNamespace makes a namespace; there is no engine in it yet.
func newNamespace(t *testing.T) *cluster {
	t.Helper()
	if noServer != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(noServer)
		}
		t.Skip(noServer)
	}
	namespaces++
	c := &cluster{T: t, namespace: fmt.Sprintf("test-%d", namespaces), stop: func() {}}
	c.must(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	return c
}

// newCluster starts an engine with the templates of VirtualMachines.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := newNamespace(t)
	c.start(controller.Fixed{vmPackage(t)})
	return c
}

var loaded *controller.Package

func vmPackage(t *testing.T) controller.Package {
	t.Helper()
	if loaded == nil {
		p, err := controller.Load(cuvee.Files, nil, "", "vm")
		if err != nil {
			t.Fatal(err)
		}
		loaded = &p
	}
	return *loaded
}

// start starts an engine, which ends with the test or by c.stop.
func (c *cluster) start(packages controller.Source) *controller.Engine {
	c.Helper()
	config := rest.CopyConfig(apiConfig)
	c.agent = fmt.Sprintf("engine-%s-%d", c.namespace, time.Now().UnixNano())
	config.UserAgent = c.agent
	hc, err := rest.HTTPClientFor(config)
	c.must(err)
	return c.startWith(config, hc, packages)
}

func (c *cluster) startWith(config *rest.Config, hc *http.Client, packages controller.Source) *controller.Engine {
	c.Helper()
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	c.must(err)
	log := funcr.New(func(prefix, args string) { c.log(prefix + " " + args) }, funcr.Options{})
	e, err := controller.New(controller.Options{
		Config: config, HTTPClient: hc, Mapper: mapper, Source: packages, Namespaces: []string{c.namespace},
		OwnNamespace: c.namespace, Workers: 2, Resync: time.Hour, Log: log,
	})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Start(ctx); err != nil {
			c.log("engine: " + err.Error())
		}
	}()
	c.stop = func() { cancel(); <-done }
	c.Cleanup(func() { c.stop() })
	return e
}

func (c *cluster) log(text string) {
	if testing.Verbose() {
		fmt.Println(c.namespace, text)
	}
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// object reads a manifest; %s in it is replaced by arguments. It is put into the test's namespace unless it says another.
func (c *cluster) object(manifest string, args ...any) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	c.must(yaml.Unmarshal([]byte(fmt.Sprintf(manifest, args...)), &u.Object))
	if u.GetNamespace() == "" {
		u.SetNamespace(c.namespace)
	}
	return u
}

// create makes the object of a manifest.
func (c *cluster) create(manifest string, args ...any) *unstructured.Unstructured {
	c.Helper()
	u := c.object(manifest, args...)
	c.must(api.Create(c.Context(), u, client.FieldOwner("test")))
	return u
}

// get returns an object, or nil if it is not there.
func (c *cluster) get(apiVersion, kind, name string) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	err := api.Get(c.Context(), types.NamespacedName{Namespace: c.namespace, Name: name}, u)
	if client.IgnoreNotFound(err) != nil {
		c.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return u
}

func (c *cluster) vm(name string) *unstructured.Unstructured {
	c.Helper()
	return c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", name)
}

// eventually waits until a check has nothing to say.
func (c *cluster) eventually(check func() string) {
	c.Helper()
	end := time.Now().Add(deadline)
	for {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(end) {
			c.Fatal(problem)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// at is a field of an object by its path; nil if there is none.
func at(u *unstructured.Unstructured, path ...string) any {
	if u == nil {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	return v
}

// condition returns status, reason and message of a condition.
func condition(u *unstructured.Unstructured, kind string) (status, reason, message string) {
	list, _ := at(u, "status", "conditions").([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		if c["type"] == kind {
			return fmt.Sprint(c["status"]), fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "", "", ""
}

// waitFor waits until a condition of a VM has a status, and a reason if one is given.
func (c *cluster) waitFor(vm, kind, status, reason string) (message string) {
	c.Helper()
	c.eventually(func() string {
		s, r, m := condition(c.vm(vm), kind)
		if s == status && (reason == "" || r == reason) {
			message = m
			return ""
		}
		text, _ := json.MarshalIndent(at(c.vm(vm), "status"), "", " ")
		return fmt.Sprintf("%s of %s is %q (%s: %s), want %q (%s)\n%s", kind, vm, s, r, m, status, reason, text)
	})
	return message
}

// vmManifest is a VM with one disk.
const vmManifest = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: %s}
spec:
  vm:
    state: Running
    maximumRam: 1Gi
    currentRam: 1Gi
    networks: []
    disks:
    - volumeClaimTemplate:
        metadata: {name: system}
        spec: {resources: {requests: {storage: 1Gi}}}
`
