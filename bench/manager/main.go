// Command manager measures how long cuvee-manager takes, against a real API server, from its start until it is ready. It prints lines of
// "figure NAME VALUE UNIT"; bench/manager.sh says what they are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// patience is how long anything may take.
const patience = 5 * time.Minute

type options struct {
	root    string
	program string
	rounds  int
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.root, "root", "..", "the repository")
	flag.StringVar(&o.program, "program", "bin/cuvee-manager", "the program cuvee-manager")
	flag.IntVar(&o.rounds, "rounds", 10, "how often it is started")
	flag.Parse()
	if o.rounds < 1 {
		log.Fatal("bench: there must be at least one round")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(ctx context.Context, o options) (err error) {
	program, err := os.Stat(o.program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cuvee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := testserver.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	_, err = envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(o.root, "kustomize/crd/vmoperator.jdrupes.org_vms.yaml")}, ErrorIfPathMissing: true, MaxTime: patience,
	})
	if err != nil {
		return fmt.Errorf("install the CustomResourceDefinition: %w", err)
	}
	config, err := server.User("cuvee-manager", "system:masters")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := testserver.WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	var times []time.Duration
	for range o.rounds {
		d, err := ready(ctx, o.program, kubeconfig)
		if err != nil {
			return err
		}
		times = append(times, d)
	}
	slices.Sort(times)
	fmt.Printf("figure manager.ready.ms %.0f ms\n", times[len(times)/2].Seconds()*1e3)
	fmt.Printf("figure manager.ready.max.ms %.0f ms\n", times[len(times)-1].Seconds()*1e3)
	fmt.Printf("figure manager.binary.mib %.1f MiB\n", float64(program.Size())/(1<<20))
	return nil
}

// ready starts the manager, and is how long it takes until it says that it is ready. With a lease one would be ready before it has it.
func ready(ctx context.Context, program, kubeconfig string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := freeAddress()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	p, err := testserver.StartProcess(nil, program, "--kubeconfig="+kubeconfig, "--namespace=default", "--leader-election=false", "--metrics-bind-address=0", "--health-probe-bind-address="+address)
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	for !says(ctx, "http://"+address+"/readyz") {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-p.Done():
			return 0, fmt.Errorf("the manager has ended:\n%s", p.Log())
		case <-time.After(time.Millisecond):
		}
	}
	took := time.Since(start)
	return took, p.Stop(ctx)
}

// says says whether a page answers with 200.
func says(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
