package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// deadline is how long a test waits for something to become true: the machine may be busy.
const deadline = time.Minute

// server is the API server that all tests of this package share; each test has a namespace of its own.
var (
	server     *testserver.Server
	api        client.Client
	namespaces int
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(testserver.Main(m, &server))
}

var setUp sync.Once

// connect installs the CustomResourceDefinition, once.
func connect(t *testing.T) {
	t.Helper()
	testserver.Need(t, server)
	setUp.Do(func() {
		var err error
		if _, err = envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{
			Paths: []string{"../kustomize/crd/vmoperator.jdrupes.org_vms.yaml"}, ErrorIfPathMissing: true, MaxTime: deadline,
		}); err != nil {
			t.Fatal(err)
		}
		if api, err = client.New(server.Config, client.Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// cluster is a namespace on the API server, with an engine that works in it.
type cluster struct {
	*testing.T
	namespace string
	// agent is the user agent of the engine.
	agent string
	stop  func()
	// others are further namespaces that the next engine works in.
	others []string
	// recorder gets the Events of the next engine, and logged its log; they may be nil.
	recorder events.EventRecorder
	logged   *lines
}

// newNamespace makes a namespace; there is no engine in it yet.
func newNamespace(t *testing.T) *cluster {
	t.Helper()
	connect(t)
	namespaces++
	c := &cluster{T: t, namespace: fmt.Sprintf("test-%d", namespaces), stop: func() {}}
	c.must(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}))
	return c
}

// newCluster starts an engine with the templates of VirtualMachines.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := newNamespace(t)
	c.start(one(vmPackage(t)))
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

// one is a source of one package.
func one(p controller.Package) controller.Source { return controller.Fixed{p} }

// start starts an engine, which ends with the test or by c.stop.
func (c *cluster) start(packages controller.Source) *controller.Engine {
	c.Helper()
	config := rest.CopyConfig(server.Config)
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
	log := funcr.New(func(prefix, args string) {
		c.log(prefix + " " + args)
		if c.logged != nil {
			c.logged.add(prefix + " " + args)
		}
	}, funcr.Options{Verbosity: 10})
	e, err := controller.New(controller.Options{
		Config: config, HTTPClient: hc, Mapper: mapper, Source: packages, Namespaces: append([]string{c.namespace}, c.others...),
		OwnNamespace: c.namespace, Workers: 2, Resync: time.Hour, Log: log, Recorder: c.recorder,
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
	testserver.Eventually(c, deadline, check)
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

// writes are what the engine has written since a moment, but for Events.
func (c *cluster) writes(since testserver.Mark) []testserver.Request {
	c.Helper()
	all, err := server.Since(since, func(r testserver.Request) bool {
		return r.Agent == c.agent && r.IsWrite() && r.Resource != "events"
	})
	c.must(err)
	return all
}

// mark is now in the audit log.
func (c *cluster) mark() testserver.Mark {
	c.Helper()
	m, err := server.Mark()
	c.must(err)
	return m
}

// quiet waits until the engine has written nothing for a while.
func (c *cluster) quiet() {
	c.Helper()
	last, since := -1, time.Now()
	c.eventually(func() string {
		if n := len(c.writes(0)); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < 1500*time.Millisecond {
			return "the engine keeps writing"
		}
		return ""
	})
}

// applied waits until everything has been applied for a VM. It has no pod, as nothing makes one here.
func (c *cluster) applied(vm string) {
	c.Helper()
	c.waitFor(vm, "Ready", "False", "WaitingForPod")
}
