package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// patience is how long a test waits for what has to happen, on a machine with other work.
const patience = 3 * time.Minute

// asManager makes the test's own program the manager.
const asManager = "CUVEE_TEST_RUN_AS_MANAGER"

var server *testserver.Server

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(testserver.Main(m, &server))
}

// world is a namespace with VirtualMachines in it.
type world struct {
	*testing.T
	namespace string
	client    dynamic.Interface
	vms       int
	mark      testserver.Mark
	// meanwhile is called again and again while the test waits for something.
	meanwhile func()
}

var (
	install sync.Once
	worlds  int
)

// newWorld makes a namespace for so many VirtualMachines.
func newWorld(t *testing.T, vms int) *world {
	t.Helper()
	testserver.Need(t, server)
	w := &world{T: t, vms: vms}
	install.Do(func() {
		_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: []string{"../../kustomize/crd/vmoperator.jdrupes.org_vms.yaml"}, ErrorIfPathMissing: true, MaxTime: patience})
		w.must(err)
	})
	worlds++
	w.namespace = fmt.Sprintf("world-%d", worlds)
	var err error
	w.client, err = dynamic.NewForConfig(server.Config)
	w.must(err)
	_, err = w.client.Resource(resource("", "namespaces")).Create(t.Context(), object("v1", "Namespace", w.namespace), metav1.CreateOptions{})
	w.must(err)
	w.mark = w.now()
	return w
}

// now is this moment in the audit log.
func (w *world) now() testserver.Mark {
	w.Helper()
	m, err := server.Mark()
	w.must(err)
	return m
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func resource(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
}

func (w *world) machines() dynamic.ResourceInterface {
	return w.client.Resource(resource("vmoperator.jdrupes.org", "vms")).Namespace(w.namespace)
}

// manager starts the program for the world's namespace, as a user.
func (w *world) manager(config *rest.Config, args ...string) *testserver.Process {
	w.Helper()
	file := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(testserver.WriteKubeconfig(file, config))
	self, err := os.Executable()
	w.must(err)
	args = append([]string{"--kubeconfig", file, "--namespace", w.namespace, "--leader-election=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, args...)
	p, err := testserver.StartProcess([]string{asManager + "=1"}, self, args...)
	w.must(err)
	w.Cleanup(func() {
		p.Kill()
		if w.Failed() {
			text := p.Log()
			w.Logf("the manager's log ends with:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return p
}

// admin is a user of a name with all rights.
func (w *world) admin(name string) *rest.Config {
	w.Helper()
	c, err := server.User(name, "system:masters")
	w.must(err)
	return c
}

func (w *world) eventually(check func() string) {
	w.Helper()
	testserver.Eventually(w, patience, func() string {
		problem := check()
		if problem != "" && w.meanwhile != nil {
			w.meanwhile()
		}
		return problem
	})
}
