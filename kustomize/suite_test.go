package kustomize_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// patience is how long a test waits for what has to happen, on a machine with other work.
const patience = 3 * time.Minute

// server is the API server that the tests share; each has a namespace of its own.
var server *testserver.Server

// scratch is a directory for all tests.
var scratch string

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	var err error
	if scratch, err = os.MkdirTemp("", "cuvee-kustomize-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := testserver.Main(m, &server)
	os.RemoveAll(scratch)
	os.Exit(code)
}

// cluster is an API server as somebody sees it.
type cluster struct {
	*testing.T
	server *testserver.Server
	api    client.Client
	core   kubernetes.Interface
}

func newCluster(t *testing.T, s *testserver.Server, config *rest.Config) *cluster {
	t.Helper()
	c := &cluster{T: t, server: s}
	var err error
	c.api, err = client.New(config, client.Options{})
	c.must(err)
	c.core, err = kubernetes.NewForConfig(config)
	c.must(err)
	return c
}

var definitions sync.Once

// admin is the cluster as its administrator sees it, with the CustomResourceDefinitions.
func admin(t *testing.T) *cluster {
	t.Helper()
	testserver.Need(t, server)
	definitions.Do(func() {
		c := newCluster(t, server, server.Config)
		c.apply("", build(t, "crd")...)
	})
	c := newCluster(t, server, server.Config)
	c.served()
	return c
}

// served waits until VirtualMachines are served: their definition is there before.
func (c *cluster) served() {
	c.Helper()
	c.eventually(func() string { return text(c.api.List(c.Context(), vms())) })
}

func vms() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetAPIVersion("vmoperator.jdrupes.org/v1")
	l.SetKind("VirtualMachineList")
	return l
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually waits until a check has nothing to say.
func (c *cluster) eventually(check func() string) {
	c.Helper()
	testserver.Eventually(c, patience, check)
}

// namespace makes one.
func (c *cluster) namespace(name string) {
	c.Helper()
	c.must(c.api.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// apply does what kubectl apply --server-side does; objects of a namespace that say none are put into the one that is given.
func (c *cluster) apply(namespace string, objects ...*unstructured.Unstructured) {
	c.Helper()
	for _, o := range objects {
		o = o.DeepCopy()
		if namespaced, err := c.api.IsObjectNamespaced(o); err == nil && namespaced && o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
		c.must(c.api.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership))
	}
}

// vm makes a VirtualMachine.
func (c *cluster) vm(namespace, name string, spec map[string]any) {
	c.Helper()
	c.must(c.api.Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
	}}))
}

// pod makes the pod of a VM, as the StatefulSet controller would.
func (c *cluster) pod(namespace, name string) *corev1.Pod {
	c.Helper()
	p, err := c.core.CoreV1().Pods(namespace).Create(c.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: "vm-runner", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	c.must(err)
	return p
}

// token is what kubelet gives a pod for its ServiceAccount; without a pod it is bound to none.
func (c *cluster) token(namespace, account string, pod *corev1.Pod) string {
	c.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	t, err := c.core.CoreV1().ServiceAccounts(namespace).CreateToken(c.Context(), account, request, metav1.CreateOptions{})
	c.must(err)
	return t.Status.Token
}

// bearer is what somebody connects with who has a token.
func (c *cluster) bearer(token string) *rest.Config {
	config := c.server.Config
	return &rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}, BearerToken: token, QPS: -1}
}

// write writes a file into a directory of the test, and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// background runs something until the test ends.
func background(t *testing.T, run func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}
