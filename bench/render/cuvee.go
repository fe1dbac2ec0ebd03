package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cuvee-vm/cuvee/render"
)

// set is the template package that is measured.
type set struct {
	*render.Set
}

func load(root string) (*set, error) {
	s, err := render.Load(render.Source{Module: os.DirFS(root), Package: "templates/vm"})
	if err != nil {
		return nil, err
	}
	return &set{s}, nil
}

// render does what a controller has done when it knows what to apply: the input is checked, and every object, the policy,
// what to look up, the status and the conditions are there.
func (s *set) render(object map[string]any) error {
	_, err := s.Render(render.Input{Document: render.Document{Object: object}})
	return err
}

// memoHit measures the same input again.
func (b *bench) memoHit(s *set, vm *variants) (time.Duration, error) {
	memo := render.NewMemo(s.Set)
	in := render.Input{Document: render.Document{Object: vm.next()}}
	var times []time.Duration
	for i := range warmUp + b.rounds {
		d, err := timed(func() error { _, err := memo.Render(in); return err })
		if err != nil {
			return 0, err
		}
		if i >= warmUp {
			times = append(times, d)
		}
	}
	return median(times), nil
}

// process measures the program as a user calls it: from its start to its end.
func (b *bench) process() error {
	input := filepath.Join(b.root, "bench/testdata/full.yaml")
	var times []time.Duration
	for i := range 1 + b.processes {
		d, err := timed(func() error {
			cmd := exec.Command(b.program, "render", "-f", input)
			var out, faults bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &faults
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd, err, faults.String())
			}
			return nil
		})
		if err != nil {
			return err
		}
		// The first one reads the program from the disk.
		if i > 0 {
			times = append(times, d)
		}
	}
	figure("cli.render.ms", milliseconds(median(times)), "ms")
	return nil
}

// fullEvery says how many of the renders for the heap's growth are of the full VM; the others are of the minimal one, so
// that 100,000 of them take minutes.
const fullEvery = 10

// heapGrowth measures what is left in memory by renders of ever new names and values.
func (b *bench) heapGrowth(s *set, full, minimal *variants) error {
	const settle = 2000
	render := func(n int) error { return renderTimes(s, full, minimal, n) }
	if err := render(settle); err != nil {
		return err
	}
	before := heap()
	const steps = 10
	for i := range steps {
		start := time.Now()
		if err := render(b.heapRenders / steps); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "heap growth: %d of %d renders, %.1f KiB, %s more to go\n", (i+1)*b.heapRenders/steps,
			b.heapRenders, (heap()-before)/1024, (time.Since(start) * time.Duration(steps-i-1)).Round(time.Second))
	}
	figure("render.heap_growth.kib", (heap()-before)/1024, "KiB")
	// These are in use until here; else they would be collected before the last look at the heap.
	runtime.KeepAlive([]any{s, full, minimal})
	return nil
}

// renderTimes renders on all processors, as a controller does.
func renderTimes(s *set, full, minimal *variants, n int) error {
	objects := make(chan map[string]any)
	faults := make(chan error, runtime.GOMAXPROCS(0))
	for range cap(faults) {
		go func() {
			var fault error
			for object := range objects {
				// After a fault the rest is taken and dropped, as somebody has to take it.
				if fault == nil {
					fault = s.render(object)
				}
			}
			faults <- fault
		}()
	}
	for i := range n {
		if i%fullEvery == 0 {
			objects <- full.next()
		} else {
			objects <- minimal.next()
		}
	}
	close(objects)
	var all []error
	for range cap(faults) {
		all = append(all, <-faults)
	}
	return errors.Join(all...)
}

// heap is the size of what is in use. Finalizers, cleanups and pools let go one collection after the other, so it is
// collected until nothing goes any more.
func heap() float64 {
	size := uint64(math.MaxUint64)
	for {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= size {
			return float64(size)
		}
		size = m.HeapAlloc
	}
}
