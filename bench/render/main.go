// Command render measures how fast custom resources are rendered. It prints a line "figure NAME VALUE UNIT" for each
// figure; bench/render.sh says what they are.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	var b bench
	flag.StringVar(&b.root, "root", "..", "the repository")
	flag.StringVar(&b.program, "cuvee", "../bin/cuvee", "the program to measure as a process")
	flag.IntVar(&b.rounds, "rounds", 300, "how often each way of rendering is measured")
	flag.IntVar(&b.processes, "processes", 20, "how often the process is measured")
	flag.IntVar(&b.heapRenders, "heap-renders", 100_000, "how many renders the growth of the heap is measured over; 0 = leave it out")
	flag.Parse()
	if err := b.run(); err != nil {
		log.Fatal("bench: ", err)
	}
}

// bench is what is measured, and how often.
type bench struct {
	root, program                  string
	rounds, processes, heapRenders int
}

func (b *bench) run() error {
	set, err := load(b.root)
	if err != nil {
		return err
	}
	full, err := readVariants(filepath.Join(b.root, "bench/testdata/full.yaml"))
	if err != nil {
		return err
	}
	minimal, err := readVariants(filepath.Join(b.root, "bench/testdata/min.yaml"))
	if err != nil {
		return err
	}
	if err := b.renders(set, full, minimal); err != nil {
		return err
	}
	if err := b.process(); err != nil {
		return err
	}
	if b.heapRenders == 0 {
		return nil
	}
	return b.heapGrowth(set, full, minimal)
}

// renders measures single renders, and the two VMs side by side with Helm.
func (b *bench) renders(set *set, full, minimal *variants) error {
	helm, err := loadChart(b.root)
	if err != nil {
		return err
	}
	for _, v := range []*variants{full, minimal} {
		if err := compareObjects(set, helm, v); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		name string
		vm   *variants
	}{{"render.full", full}, {"render.min", minimal}} {
		r, err := b.sideBySide(set, helm, m.vm)
		if err != nil {
			return err
		}
		figure(m.name+".ms", milliseconds(r.cuvee), "ms")
		figure(m.name+".allocs", r.cuveeAllocs, "allocs")
		figure(m.name+".vs_helm", r.ratio, "x")
		figure(m.name+".vs_helm_validating", r.validatingRatio, "x")
		figure(m.name+".helm.ms", milliseconds(r.helm), "ms")
		figure(m.name+".helm.allocs", r.helmAllocs, "allocs")
		figure(m.name+".helm_validating.ms", milliseconds(r.validating), "ms")
	}
	hit, err := b.memoHit(set, full)
	if err != nil {
		return err
	}
	figure("render.memo_hit.us", float64(hit.Nanoseconds())/1e3, "us")
	return nil
}

// figure prints a measured value.
func figure(name string, value float64, unit string) {
	fmt.Fprintf(os.Stdout, "figure %s %.*f %s\n", name, digits(value), value, unit)
}

func digits(value float64) int {
	switch {
	case value >= 1000:
		return 0
	case value >= 10:
		return 1
	default:
		return 3
	}
}
