// Command controller measures cuvee-manager, as a process of its own, against a real API server. It prints lines of
// "figure NAME VALUE UNIT"; bench/controller.sh says what they are. Nothing runs pods: a VM is done when all its objects are there.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	root    string
	program string
	vms     int
	rounds  int
	batch   int
	drifts  int
	resync  time.Duration
	debug   string
	// only are the parts to measure; all if there are none.
	only []string
}

// parts are what can be measured by itself.
var parts = []string{"create", "cost", "memory", "drift", "reload", "noop"}

// measures says whether to measure a part.
func (o options) measures(part string) bool { return len(o.only) == 0 || slices.Contains(o.only, part) }

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.root, "root", "..", "the repository")
	flag.StringVar(&o.program, "program", "bin/cuvee-manager", "the program cuvee-manager")
	flag.IntVar(&o.vms, "vms", 10000, "how many VMs there are in the end")
	flag.IntVar(&o.rounds, "rounds", 5, "how often the creation of VMs is measured, by the manager and by the bare loop")
	flag.IntVar(&o.batch, "batch", 100, "how many VMs are created in a round")
	flag.IntVar(&o.drifts, "drifts", 200, "how many objects are edited")
	flag.DurationVar(&o.resync, "resync", time.Minute, "in what time the manager looks at each VM once, without a reason")
	flag.StringVar(&o.debug, "debug", "0", "address for the manager to serve its profiles at")
	only := flag.String("only", "", "what to measure, with commas, of "+strings.Join(parts, ", ")+"; all if empty")
	flag.Parse()
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, part := range o.only {
		if !slices.Contains(parts, part) {
			log.Fatalf("bench: -only has %q, want one of %s", part, strings.Join(parts, ", "))
		}
	}
	if o.rounds < 1 || o.batch < 1 || o.drifts < 1 || o.vms < (o.rounds+2)*o.batch {
		log.Fatal("bench: there must be at least one round, one VM in it and one edit, and -vms must be at least -batch times (-rounds + 2)")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

// run measures one thing after the other, while the VMs become more.
func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "cuvee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := newBench(ctx, o, dir)
	if err != nil {
		return err
	}
	defer b.end()
	if err := b.startManager(ctx, "--reconcile-interval=0"); err != nil {
		return err
	}
	// The first batch also has what is done once.
	if err := b.growTo(ctx, o.batch, short(o.batch)); err != nil {
		return err
	}
	var few cost
	if o.measures("cost") {
		if few, err = b.costOfBatch(ctx); err != nil {
			return err
		}
	}
	if o.measures("create") {
		if err := b.create(ctx); err != nil || slices.Equal(o.only, []string{"create"}) {
			return err
		}
	}
	if o.vms > middle {
		if err := b.growTo(ctx, middle, "1k"); err != nil {
			return err
		}
	}
	if err := b.growTo(ctx, o.vms, short(o.vms)); err != nil {
		return err
	}
	return b.withMany(ctx, few)
}

// withMany measures what depends on how many VMs there are.
func (b *bench) withMany(ctx context.Context, few cost) error {
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"cost", func(ctx context.Context) error { return b.growth(ctx, few) }},
		{"drift", b.drift},
		{"reload", b.reload},
		{"noop", b.noop},
	} {
		if !b.measures(part.name) {
			continue
		}
		start := time.Now()
		if err := part.measure(ctx); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %.0f s\n", part.name, time.Since(start).Seconds())
	}
	return nil
}

// growth compares what a VM costs now with what it cost when there were few.
func (b *bench) growth(ctx context.Context, few cost) error {
	many, err := b.costOfBatch(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("figure controller.cost_growth %.3f x\n", many.cpu.Seconds()/few.cpu.Seconds())
	fmt.Printf("figure controller.create.cpu_ms %.2f ms\n", many.cpu.Seconds()*1e3)
	fmt.Printf("figure controller.create.renders %.2f renders\n", many.renders)
	return nil
}

// middle is a number of VMs at which the memory is looked at, too.
const middle = 1000

// short is a number of VMs as the names of figures have it.
func short(n int) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}
