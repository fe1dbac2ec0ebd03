// Command start measures how long the runner takes from a parsed config to the guest's first instruction, against the
// same QEMU alone. It prints lines of "figure NAME VALUE UNIT"; bench/render.sh says what they are.
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

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "the repository")
	pairs := flag.Int("pairs", 40, "how many starts of each kind are measured")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, *root, *pairs); err != nil {
		log.Fatal("bench: ", err)
	}
}

// warmUp is how many pairs of starts come before those that count.
const warmUp = 2

func run(ctx context.Context, root string, pairs int) error {
	dir, err := os.MkdirTemp("", "cuvee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	vm, err := prepare(ctx, root, dir)
	if err != nil {
		return err
	}
	var ours, bare, ratios []float64
	for i := range warmUp + pairs {
		a, b, err := vm.pair(ctx, i%2 == 1)
		if err != nil {
			return err
		}
		if i < warmUp {
			continue
		}
		ours, bare, ratios = append(ours, a.Seconds()*1e3), append(bare, b.Seconds()*1e3), append(ratios, a.Seconds()/b.Seconds())
	}
	fmt.Printf("figure run.start.vs_qemu %.3f x\n", median(ratios))
	fmt.Printf("figure run.start.ms %.1f ms\n", median(ours))
	fmt.Printf("figure run.start.qemu.ms %.1f ms\n", median(bare))
	return nil
}

// pair starts the VM both ways. They take turns in being first, as what ends may still be in the way of what comes next.
func (v *vm) pair(ctx context.Context, bareFirst bool) (ours, bare time.Duration, err error) {
	runner := func() {
		if ours, err = v.startRunner(ctx); err != nil {
			err = fmt.Errorf("start of the runner: %w", err)
		}
	}
	qemu := func() {
		if bare, err = v.startBare(ctx); err != nil {
			err = fmt.Errorf("start of QEMU: %w", err)
		}
	}
	first, second := runner, qemu
	if bareFirst {
		first, second = qemu, runner
	}
	first()
	if err == nil {
		second()
	}
	return ours, bare, err
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
