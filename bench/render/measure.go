package main

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// warmUp is how many rounds come before those that count.
const warmUp = 20

// comparison is what the ways of rendering a VM cost: medians, and of the ratios of neighbours in time, too, so that a
// machine that is busy for a while is so for both.
type comparison struct {
	cuvee, helm, validating time.Duration
	ratio, validatingRatio  float64
	cuveeAllocs, helmAllocs float64
}

// sideBySide renders the same VM with Cuvee, with Helm's engine, and with Helm's engine after Helm's validation of the
// values, in turns. Every round has a name and values that were not seen before; making them is not measured.
func (b *bench) sideBySide(set *set, helm *helmChart, vm *variants) (comparison, error) {
	var cuvee, plain, validating []time.Duration
	var ratios, validatingRatios []float64
	for i := range warmUp + b.rounds {
		object := vm.next()
		a, err := timed(func() error { return set.render(object) })
		if err != nil {
			return comparison{}, err
		}
		h, err := timed(func() error { return helm.render(object, false) })
		if err != nil {
			return comparison{}, err
		}
		v, err := timed(func() error { return helm.render(object, true) })
		if err != nil {
			return comparison{}, err
		}
		if i < warmUp {
			continue
		}
		cuvee, plain, validating = append(cuvee, a), append(plain, h), append(validating, v)
		ratios, validatingRatios = append(ratios, float64(a)/float64(h)), append(validatingRatios, float64(a)/float64(v))
	}
	c := comparison{cuvee: median(cuvee), helm: median(plain), validating: median(validating), ratio: median(ratios), validatingRatio: median(validatingRatios)}
	var err error
	if c.cuveeAllocs, err = allocs(vm, set.render); err != nil {
		return c, err
	}
	c.helmAllocs, err = allocs(vm, func(object map[string]any) error { return helm.render(object, false) })
	return c, err
}

func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

// allocs is how many allocations a render makes, on average.
func allocs(vm *variants, render func(map[string]any) error) (float64, error) {
	const renders = 50
	objects := make([]map[string]any, renders)
	for i := range objects {
		objects[i] = vm.next()
	}
	// What other goroutines do on other processors would be counted, too.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, object := range objects {
		if err := render(object); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / renders, nil
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
