// Command cluster measures VMs on a cluster of one real node, where Cuvee is installed. It prints lines of "figure NAME VALUE UNIT";
// bench/cluster.sh says what they are, and starts the cluster.
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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cuvee-vm/cuvee/runner/kvm"
)

const (
	namespace = "bench"
	// managerUser and runnerUser are who writes for a VM.
	managerUser = "system:serviceaccount:cuvee-system:vm-operator"
	runnerUser  = "system:serviceaccount:" + namespace + ":vm-runner"
	// patternVM is the VM that pods are made after; the name is nowhere else in its objects.
	patternVM = "pattern-of-pods"
	// patience is how long a VM, or a pod, may take to run.
	patience = 10 * time.Minute
)

// bench is what all measurements need.
type bench struct {
	api dynamic.Interface
	// volumes is a directory that the node sees, auditLog the API server's.
	volumes, auditLog string
	// accelerator is what runs the instructions of guests that stay in their firmware: tcg, kvm or kvm-unprobed, see install/site.cue.
	accelerator string
	// apart is the time between two creations.
	apart time.Duration
	// cpu is what VMs ask for. One that asks for next to none gets next to none while others want it, and runs when the last one has started.
	cpu string
}

func main() {
	log.SetFlags(0)
	nodes := flag.String("nodes", "", "the directory of the cluster's nodes")
	vms := flag.Int("vms", 20, "how many VMs are created each time")
	rounds := flag.Int("rounds", 3, "how often VMs, and pods, are created")
	linux := flag.Int("linux", 3, "how many VMs boot Linux")
	most := flag.Int("most", 100, "how many VMs run at once at most")
	accelerator := flag.String("accelerator", "auto", "what runs the guests' instructions: kvm, tcg, or auto, which is kvm where a guest runs under it")
	apart := flag.Duration("apart", 100*time.Millisecond, "the time between two creations")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := newBench(*nodes)
	if err == nil {
		b.apart, b.cpu = *apart, "50m"
		b.accelerator, err = chooseAccelerator(ctx, *accelerator)
	}
	if err == nil {
		err = b.run(ctx, *vms, *rounds, *linux, *most)
	}
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

// chooseAccelerator tells what guests run under, and says so. Who asks for kvm gets it even if it does not run a guest as a CPU would.
func chooseAccelerator(ctx context.Context, wish string) (string, error) {
	if wish != "auto" && wish != "kvm" && wish != "tcg" {
		return "", fmt.Errorf("unknown accelerator %q, want auto, kvm or tcg", wish)
	}
	chosen := "tcg"
	if wish != "tcg" {
		err := kvm.Probe(ctx)
		switch {
		case err == nil:
			chosen = "kvm"
		case wish == "kvm":
			chosen = "kvm-unprobed"
		}
		if err != nil {
			fmt.Printf("# KVM: %v\n", err)
		}
	}
	fmt.Printf("# guests run under %s\n", chosen)
	return chosen, nil
}

func newBench(nodes string) (*bench, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &bench{api: api, volumes: filepath.Join(nodes, "volumes", "bench"), auditLog: filepath.Join(nodes, "control", "log", "audit.log")}, nil
}

func (b *bench) run(ctx context.Context, vms, rounds, linux, most int) error {
	// The first VM finds nothing in the caches of the node; it is the pattern of the pods, too.
	if _, err := b.startVMs(ctx, []string{patternVM}); err != nil {
		return err
	}
	pattern, err := b.pattern(ctx, patternVM)
	if err != nil {
		return err
	}
	if err := b.remove(ctx, []string{patternVM}); err != nil {
		return err
	}
	if err := b.measureStarts(ctx, pattern, vms, rounds); err != nil {
		return err
	}
	if err := b.measureUserland(ctx, linux); err != nil {
		return err
	}
	// So many have no room otherwise.
	b.cpu = "1m"
	return b.measureMost(ctx, most)
}

// names are those of VMs or pods, none of which is a part of another one.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// quantile is the value that the given part of all values does not exceed.
func quantile[T float64 | int | time.Duration](values []T, part float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// create creates objects in their order.
func (b *bench) create(ctx context.Context, objects ...map[string]any) error {
	for _, o := range objects {
		u := &unstructured.Unstructured{Object: o}
		if _, err := b.resource(u).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create the %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}
