// Command machine measures Machines on KubeVirt's API: a render, and a manager as a process of its own that makes what many of them
// become on a real API server. It prints lines of "figure NAME VALUE UNIT"; bench/machine.sh says what they are.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/bench/proc"
	"github.com/cuvee-vm/cuvee/controller/testserver"
	"github.com/cuvee-vm/cuvee/render"
)

const (
	agent     = "cuvee-manager"
	namespace = "machines"
	// patience is for what has no figure.
	patience = 2 * time.Minute
)

func main() {
	log.SetFlags(0)
	ctrllog.SetLogger(logr.Discard())
	root := flag.String("root", "..", "the repository")
	program := flag.String("program", "bin/cuvee-manager", "the program cuvee-manager")
	machines := flag.Int("machines", 1000, "how many Machines there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measureRender(); err != nil {
		log.Fatal("bench: ", err)
	}
	if err := measureManager(ctx, *root, *program, *machines); err != nil {
		log.Fatal("bench: ", err)
	}
}

// machine is a Machine of the template small.
func machine(name string) map[string]any {
	return map[string]any{
		"apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec":     map[string]any{"template": "small"},
	}
}

// measureRender prints the median of many renders.
func measureRender() error {
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/machine", Many: true})
	if err != nil {
		return err
	}
	var took []float64
	for i := range 200 {
		start := time.Now()
		if _, err := set.Render(render.Input{Document: render.Document{Object: machine(fmt.Sprintf("m%d", i))}}); err != nil {
			return err
		}
		took = append(took, time.Since(start).Seconds()*1e3)
	}
	slices.Sort(took)
	fmt.Printf("figure machine.render.ms %.2f ms\n", took[len(took)/2])
	return nil
}

// measureManager has a manager work on many Machines.
func measureManager(ctx context.Context, root, program string, n int) (err error) {
	server, err := testserver.Start()
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := server.Stop(); err == nil {
			err = stopErr
		}
	}()
	var paths []string
	for _, p := range []string{"kustomize/crd/vmoperator.jdrupes.org_vms.yaml", "kustomize/crd/vitistack.io", "tools/kubevirt/crd"} {
		paths = append(paths, filepath.Join(root, p))
	}
	if _, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: paths, MaxTime: patience}); err != nil {
		return err
	}
	config := rest.CopyConfig(server.Config)
	config.QPS = -1
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if _, err := api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cuvee-bench-")
	if err != nil {
		return err
	}
	manager, err := start(server, program, dir)
	if err != nil {
		return err
	}
	defer manager.Kill()
	defer os.RemoveAll(dir)
	mark, err := server.Mark()
	if err != nil {
		return err
	}
	from := time.Now()
	if err := create(ctx, api, n); err != nil {
		return err
	}
	all, last, err := await(ctx, server, manager, mark, n)
	if err != nil {
		return err
	}
	fmt.Printf("figure machine.%s.s %.1f s\n", short(n), last.Sub(from).Seconds())
	fmt.Printf("figure machine.%s.writes %d writes\n", short(n), len(all))
	rss, _, err := proc.Memory(manager.PID())
	if err != nil {
		return err
	}
	fmt.Printf("figure machine.%s.rss.mib %.1f MiB\n", short(n), float64(rss)/(1<<20))
	return nil
}

// short is a number as the names of figures have it.
func short(n int) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// start starts a manager with all rights.
func start(server *testserver.Server, program, dir string) (*testserver.Process, error) {
	config, err := server.User(agent, "system:masters")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := testserver.WriteKubeconfig(file, config); err != nil {
		return nil, err
	}
	return testserver.StartProcess(nil, program, "--kubeconfig="+file, "--namespace="+namespace, "--leader-election=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--max-concurrent-reconciles=4", "--reconcile-interval=0")
}

// create makes the Machines, several at a time.
func create(ctx context.Context, api dynamic.Interface, n int) error {
	kind := api.Resource(schema.GroupVersionResource{Group: "vitistack.io", Version: "v1alpha1", Resource: "machines"}).Namespace(namespace)
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range 4 {
		g.Go(func() error {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if _, err := kind.Create(ctx, &unstructured.Unstructured{Object: machine(fmt.Sprintf("m%d", i))}, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// await waits until each Machine has its VirtualMachine, and nothing is written any more. It returns all that was written (Events and
// leases apart), and when the last of it was seen.
func await(ctx context.Context, server *testserver.Server, manager *testserver.Process, mark testserver.Mark, n int) ([]testserver.Request, time.Time, error) {
	var all []testserver.Request
	made, last := 0, time.Now()
	end := last.Add(patience + time.Duration(n)*200*time.Millisecond)
	for made < n || time.Since(last) < 3*time.Second {
		news, next, err := server.Follow(mark, func(r testserver.Request) bool {
			return r.Agent == agent && r.IsWrite() && !r.IsLease() && r.Resource != "events"
		})
		if err != nil {
			return nil, last, err
		}
		if mark = next; len(news) > 0 {
			last = time.Now()
		}
		for _, r := range news {
			if r.Resource == "virtualmachines" && r.Code == 201 {
				made++
			}
		}
		all = append(all, news...)
		select {
		case <-ctx.Done():
			return nil, last, ctx.Err()
		case <-manager.Done():
			return nil, last, fmt.Errorf("the manager has ended:\n%s", manager.Log())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(end) {
			return nil, last, fmt.Errorf("%d of %d Machines have a VirtualMachine", made, n)
		}
	}
	return all, last, nil
}
