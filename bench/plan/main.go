// Command plan measures "cuvee plan", as a process of its own, against a real API server that has the VMs and all their objects. It
// prints lines of "figure NAME VALUE UNIT"; bench/plan.sh says what they are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// options are what the command line says.
type options struct {
	root    string
	program string
	vms     int
	rounds  int
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.root, "root", "..", "the repository")
	flag.StringVar(&o.program, "program", "bin/cuvee", "the program cuvee")
	flag.IntVar(&o.vms, "vms", 10000, "how many VMs there are")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each plan is made")
	flag.Parse()
	if o.vms < 1 || o.rounds < 1 {
		log.Fatal("bench: there must be at least one VM and one round")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

// sites are templates that are to come: one that changes nothing, and one that changes two objects of each VM.
var sites = map[string]string{
	"same":    "package vm\n",
	"changes": "package vm\n\nsettings: vm: powerdownTimeout: 60\n",
}

func run(ctx context.Context, o options) (err error) {
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
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := testserver.WriteKubeconfig(kubeconfig, server.Config); err != nil {
		return err
	}
	for name, text := range sites {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "site.cue"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := fill(ctx, o, server.Config); err != nil {
		return err
	}
	b := bench{options: o, dir: dir, kubeconfig: kubeconfig}
	n := short(o.vms)
	// Between the rounds nothing changes, so each has to come to the same result.
	same, err := b.measure(ctx, "same", exitOK, "VMs: "+comma(o.vms)+" would not change")
	if err != nil {
		return err
	}
	changes, err := b.measure(ctx, "changes", exitChanges, "VMs: "+comma(o.vms)+" would change; objects: "+comma(2*o.vms)+" changed")
	if err != nil {
		return err
	}
	fmt.Printf("figure plan.%s.s %.2f s\n", n, changes.took.Seconds())
	fmt.Printf("figure plan.%s.rss.mib %.0f MiB\n", n, changes.memory)
	fmt.Printf("figure plan.%s.cpu_s %.2f s\n", n, changes.cpu.Seconds())
	fmt.Printf("figure plan.%s.same.s %.2f s\n", n, same.took.Seconds())
	return nil
}

// The exit codes of cuvee plan.
const (
	exitOK      = 0
	exitChanges = 3
)

type bench struct {
	options
	dir, kubeconfig string
}

// cost is what a plan took.
type cost struct {
	took, cpu time.Duration
	// memory is the most that the process had, in MiB.
	memory float64
}

// measure makes a plan some times, and returns the median by time.
func (b *bench) measure(ctx context.Context, site string, code int, says string) (cost, error) {
	var all []cost
	for range b.rounds {
		c, err := b.plan(ctx, site, code, says)
		if err != nil {
			return cost{}, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y cost) int { return int(x.took - y.took) })
	return all[len(all)/2], nil
}

// plan makes one, and sees that it says what it should.
func (b *bench) plan(ctx context.Context, site string, code int, says string) (cost, error) {
	cmd := exec.CommandContext(ctx, b.program, "plan", "--site", filepath.Join(b.dir, site), "-n", namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == code {
		err = nil
	}
	if err != nil || !strings.Contains(string(out), says) {
		return cost{}, fmt.Errorf("cuvee plan --site %s: %w, want exit code %d and %q, got:\n%s", site, err, code, says, out[max(0, len(out)-2000):])
	}
	state := cmd.ProcessState
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return cost{}, errors.New("this system does not tell what a process has used")
	}
	c := cost{took: took, cpu: state.UserTime() + state.SystemTime(), memory: float64(usage.Maxrss) / 1024}
	fmt.Fprintf(os.Stderr, "bench: %s: %.2f s, %.2f s of CPU, %.0f MiB\n", site, c.took.Seconds(), c.cpu.Seconds(), c.memory)
	return c, nil
}

// short is a number of VMs as the names of figures have it.
func short(n int) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// comma writes a number as plans do: 10,000.
func comma(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return comma(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
