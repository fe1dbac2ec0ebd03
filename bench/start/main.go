// Command start measures how long the runner takes from a parsed config to the guest's first instruction, against the
// same QEMU alone. It prints lines of "figure NAME VALUE UNIT"; bench/render.sh and bench/runner.sh say what they are.
//
// Both have the same to start with: the directories, the disk's image file, the firmware's variables and the choices of
// an earlier start are there, and so is the cloud-init data.
//
// In the runner's time is all that Run does until the guest runs: it checks the config, makes its choices (and with them
// tries the ways of disk access), writes the cloud-init disk, starts QEMU, waits for its monitor, plugs in the CPUs, sets
// the balloon, and lets the guest run.
//
// In bare QEMU's time is the start of the process with the runner's own arguments, the wait for the monitor's greeting,
// the end of the negotiation (qmp_capabilities), and cont. It has one CPU, as nobody plugs in another.
//
// That QEMU is ended is in neither time.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// options are what the command line says.
type options struct {
	root string
	// pairs is how many starts of each kind are measured.
	pairs int
	// runner is the program cuvee-runner; without it the runner is called in this process.
	runner      string
	accelerator string
	commands    int
	idle        time.Duration
	libvirt     string
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.root, "root", "..", "the repository")
	flag.IntVar(&o.pairs, "pairs", 40, "how many starts of each kind are measured")
	flag.StringVar(&o.runner, "runner", "", "measure this program cuvee-runner, and what it runs, instead of the package")
	flag.StringVar(&o.accelerator, "accelerator", "tcg", "tcg or kvm")
	flag.IntVar(&o.commands, "commands", 5000, "how many QMP commands are measured")
	flag.DurationVar(&o.idle, "idle", 20*time.Second, "how long an idle VM is looked at; 0 leaves it out")
	flag.StringVar(&o.libvirt, "libvirt", "", "measure the program only against the libvirt at this URI")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, o); err != nil {
		log.Fatal("bench: ", err)
	}
}

// run measures in a directory of its own.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "cuvee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	switch {
	case o.libvirt != "":
		return measureLibvirt(ctx, o, dir)
	case o.runner != "":
		return measureRunner(ctx, o, dir)
	default:
		return measurePackage(ctx, o, dir)
	}
}

// measurePackage measures the runner's work without the start of its process.
func measurePackage(ctx context.Context, o options, dir string) error {
	vm, err := prepare(ctx, o, "start.yaml", dir)
	if err != nil {
		return err
	}
	ratio, ours, bare, err := pairs(o.pairs,
		func() (time.Duration, error) {
			took, err := vm.startRunner(ctx)
			if err != nil {
				return 0, fmt.Errorf("start of the runner: %w", err)
			}
			return took, nil
		},
		func() (time.Duration, error) {
			took, err := vm.startBare(ctx)
			if err != nil {
				return 0, fmt.Errorf("start of QEMU: %w", err)
			}
			return took, nil
		})
	if err != nil {
		return err
	}
	fmt.Printf("figure run.start.vs_qemu %.3f x\n", ratio)
	fmt.Printf("figure run.start.ms %.1f ms\n", ours)
	fmt.Printf("figure run.start.qemu.ms %.1f ms\n", bare)
	return nil
}

// warmUp is how many pairs of starts come before those that count.
const warmUp = 2

// pairs measures two ways to start a VM in turns, and returns the median of their ratio, and of each in milliseconds. They
// take turns in being first, too, as what ends may still be in the way of what comes next.
func pairs(n int, ours, theirs func() (time.Duration, error)) (ratio, oursMS, theirsMS float64, err error) {
	var ratios, a, b []float64
	for i := range warmUp + n {
		var took [2]time.Duration
		for j := range took {
			which := (i + j) % 2
			if took[which], err = []func() (time.Duration, error){ours, theirs}[which](); err != nil {
				return 0, 0, 0, err
			}
		}
		if i < warmUp {
			continue
		}
		ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
		a, b = append(a, took[0].Seconds()*1e3), append(b, took[1].Seconds()*1e3)
	}
	return median(ratios), median(a), median(b), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// write makes a file and the directories that it is in.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
