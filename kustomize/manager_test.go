package kustomize_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller/testserver"
	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// program builds one of the programs, once.
func program(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(scratch, name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "../cmd/"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return file
}

// manager is a manager as its Deployment says, but for the pod around it.
type manager struct {
	*testserver.Process
	// user is its name to the API server.
	user string
	// health is the address of its probes.
	health string
	since  testserver.Mark
}

// install applies a kustomization to a namespace of its own, which it returns, and starts the manager from it.
func (c *cluster) install(namespace string, objects []*unstructured.Unstructured) *manager {
	c.Helper()
	c.namespace(namespace)
	c.apply(namespace, objects...)
	return c.start(namespace)
}

// start starts the manager that a namespace has a Deployment of: with its arguments, variables, files and ServiceAccount.
func (c *cluster) start(namespace string) *manager {
	c.Helper()
	deployments, err := c.core.AppsV1().Deployments(namespace).List(c.Context(), metav1.ListOptions{})
	c.must(err)
	if len(deployments.Items) != 1 {
		c.Fatalf("the namespace %s has %d Deployments, want that of the manager", namespace, len(deployments.Items))
	}
	pod := deployments.Items[0].Spec.Template.Spec
	container := pod.Containers[0]
	m := &manager{user: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, pod.ServiceAccountName), health: freeAddress(c.T)}
	m.since, err = c.server.Mark()
	c.must(err)

	config := c.bearer(c.token(namespace, pod.ServiceAccountName, nil))
	kubeconfig := filepath.Join(c.TempDir(), "kubeconfig")
	c.must(testserver.WriteKubeconfig(kubeconfig, config))
	// Ports are those of a pod: other programs of this machine may have them.
	env := []string{"KUBECONFIG=" + kubeconfig, "METRICS_BIND_ADDRESS=0", "HEALTH_PROBE_BIND_ADDRESS=" + m.health}
	for _, v := range container.Env {
		value := v.Value
		if v.ValueFrom != nil {
			if v.ValueFrom.FieldRef == nil || v.ValueFrom.FieldRef.FieldPath != "metadata.namespace" {
				c.Fatalf("the test does not know where the variable %s is from", v.Name)
			}
			value = namespace
		}
		env = append(env, v.Name+"="+value)
	}
	args := container.Args
	for _, mount := range container.VolumeMounts {
		dir := c.mount(namespace, pod.Volumes, mount.Name)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], mount.MountPath, dir)
		}
	}
	m.Process, err = testserver.StartProcess(env, program(c.T, "cuvee-manager"), args...)
	c.must(err)
	c.Cleanup(func() {
		m.Kill()
		if c.Failed() {
			text := m.Log()
			c.Logf("the manager's log ends with:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return m
}

// mount makes a directory of a ConfigMap, as kubelet does.
func (c *cluster) mount(namespace string, volumes []corev1.Volume, name string) string {
	c.Helper()
	for _, v := range volumes {
		if v.Name != name {
			continue
		}
		if v.ConfigMap == nil {
			c.Fatalf("the test does not know what the volume %s is", name)
		}
		files, err := c.core.CoreV1().ConfigMaps(namespace).Get(c.Context(), v.ConfigMap.Name, metav1.GetOptions{})
		c.must(err)
		dir := c.TempDir()
		for file, content := range files.Data {
			c.must(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
		}
		return dir
	}
	c.Fatalf("there is no volume %s", name)
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := freeport.Next()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// ready waits until the readiness probe of the Deployment succeeds.
func (c *cluster) ready(m *manager) {
	c.Helper()
	c.eventually(func() string {
		select {
		case <-m.Done():
			c.Fatal("the manager has ended")
		default:
		}
		return m.probe("/readyz")
	})
}

// probe is what a probe answers if it fails.
func (m *manager) probe(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.health+path, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(path, " says ", resp.Status, " ", string(body), " ", text(err))
}

// requests are those of the manager.
func (c *cluster) requests(m *manager) []testserver.Request {
	c.Helper()
	all, err := c.server.Since(m.since, func(r testserver.Request) bool { return r.User == m.user })
	c.must(err)
	return all
}

// get returns an object; nil if it is not there.
func (c *cluster) get(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	c.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	err := c.api.Get(c.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		c.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return o
}

// rendered waits until the manager has done all that there is to do for a VM: nothing makes pods here.
func (c *cluster) rendered(namespace, vm string) {
	c.Helper()
	c.eventually(func() string {
		o := c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", namespace, vm)
		if o == nil {
			return "there is no " + vm
		}
		conditions, _ := at(o, "status", "conditions").([]any)
		for _, item := range conditions {
			if has, ok := item.(map[string]any); ok && has["type"] == "Ready" && has["reason"] == "WaitingForPod" && has["observedGeneration"] == o.GetGeneration() {
				return ""
			}
		}
		return fmt.Sprintf("%s does not wait for its pod: %v", vm, conditions)
	})
}

// Sites are applied as they are, the manager that comes of it gets ready, and what it makes of a VM is what the site says.
func TestInstall(t *testing.T) {
	type object struct{ apiVersion, kind, name string }
	set := object{"apps/v1", "StatefulSet", "web"}
	data, disk := object{"v1", "PersistentVolumeClaim", "runner-data-web-0"}, object{"v1", "PersistentVolumeClaim", "system-disk-web-0"}
	class := []string{"spec", "storageClassName"}
	cases := map[string]struct {
		site []*unstructured.Unstructured
		// of and at are a field, and want its value.
		of   object
		at   []string
		want any
	}{
		"local-path-data":  {build(t, "overlays/local-path"), data, class, "local-path"},
		"local-path-disks": {build(t, "overlays/local-path"), disk, []string{"spec", "volumeMode"}, "Filesystem"},
		"rook-ceph":        {build(t, "overlays/rook-ceph"), disk, class, "rook-ceph-block"},
		"vmoperator":       {inMemory(t, "/", ofVMOperator), data, class, "local-path"},
		"document":         {documented(t), set, nil, "registry.example/cuvee-runner:1.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := admin(t)
			ns := "install-" + name
			m := c.install(ns, moved(t, tc.site, ns))
			c.ready(m)
			if problem := m.probe("/healthz"); problem != "" {
				t.Error(problem)
			}
			c.vm(ns, "web", specWithDisk())
			c.rendered(ns, "web")
			o := c.get(tc.of.apiVersion, tc.of.kind, ns, tc.of.name)
			if o == nil {
				t.Fatalf("there is no %s %s", tc.of.kind, tc.of.name)
			}
			got := at(o, tc.at...)
			if tc.at == nil {
				got = image(t, o)
			}
			if got != tc.want {
				t.Errorf("%v of %s %s is %v, want %v", tc.at, tc.of.kind, tc.of.name, got, tc.want)
			}
			c.noForbidden(m)
		})
	}
}

// image is that of the first container of a StatefulSet.
func image(t *testing.T, o *unstructured.Unstructured) any {
	t.Helper()
	containers, _ := at(o, "spec", "template", "spec", "containers").([]any)
	if len(containers) == 0 {
		t.Fatal("there is no container")
	}
	return containers[0].(map[string]any)["image"]
}

// noForbidden says that the manager has not asked for what it may not do.
func (c *cluster) noForbidden(m *manager) {
	c.Helper()
	requests := c.requests(m)
	if len(requests) < 20 {
		c.Errorf("the manager has sent %d requests only", len(requests))
	}
	for _, r := range requests {
		if r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized {
			c.Errorf("forbidden: %s", r)
		}
	}
}
