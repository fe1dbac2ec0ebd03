// Command import measures how a disk is filled with an image, against the programs that only copy or convert. It prints lines of
// "figure NAME VALUE UNIT"; bench/import.sh says what they are.
//
// Each import is a process of its own, this program again, so that its start is in the time, and all of its memory in the peak.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/cuvee-vm/cuvee/runner/content"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func main() {
	log.SetFlags(0)
	fill := flag.Bool("fill", false, "only fill the disk TO with the file FROM, and measure nothing")
	memory := flag.String("memory", "/dev/shm", "a directory in memory, with room for 4 GiB")
	disk := flag.String("disk", os.TempDir(), "a directory on a disk, with room for 4 GiB")
	pairs := flag.Int("pairs", 7, "how often each way is measured")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	var err error
	if *fill {
		_, err = content.Fill(ctx, content.Source{Path: flag.Arg(0)}, content.Target{Path: flag.Arg(1)}, nil)
	} else {
		err = measure(ctx, *memory, *disk, *pairs)
	}
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

func measure(ctx context.Context, memory, disk string, pairs int) error {
	for _, where := range []struct{ dir, suffix string }{{memory, ""}, {disk, ".synced"}} {
		dir, err := os.MkdirTemp(where.dir, "cuvee-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := measureTimes(ctx, dir, where.suffix, pairs); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(memory, "cuvee-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return measureMemory(ctx, dir)
}

// measureTimes compares how long it takes. On a disk the other programs are followed by a sync, as an import ends with one.
func measureTimes(ctx context.Context, dir, suffix string, pairs int) error {
	raw, image, to := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2"), filepath.Join(dir, "disk")
	if err := makeDisk(raw, 2*gib, 2); err != nil {
		return err
	}
	if _, err := run(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, image); err != nil {
		return err
	}
	others := []struct {
		name, from string
		command    []string
	}{
		{"import.raw" + suffix + ".vs_cp", raw, []string{"cp", "--sparse=always", raw, to}},
		{"import.qcow2" + suffix + ".vs_qemu_img", image, []string{"qemu-img", "convert", "-f", "qcow2", "-O", "raw", image, to}},
	}
	for _, other := range others {
		var ratios, ours, theirs []float64
		for i := range 1 + pairs {
			var took [2]float64
			for j := range took {
				// They take turns in being first.
				which := (i + j) % 2
				var err error
				if took[which], err = timed(ctx, to, suffix != "" && which == 1, [][]string{fillCommand(other.from, to), other.command}[which]); err != nil {
					return err
				}
			}
			// The first pair warms up.
			if i > 0 {
				ratios, ours, theirs = append(ratios, took[0]/took[1]), append(ours, took[0]), append(theirs, took[1])
			}
		}
		fmt.Printf("figure %s %.3f x\n", other.name, median(ratios))
		fmt.Printf("figure %s.ms %.0f ms\n", other.name, 1e3*median(ours))
		fmt.Printf("figure %s.other.ms %.0f ms\n", other.name, 1e3*median(theirs))
	}
	return nil
}

// timed returns how many seconds a command takes to make a file, and to sync it.
func timed(ctx context.Context, to string, sync bool, command []string) (float64, error) {
	if err := os.RemoveAll(to); err != nil {
		return 0, err
	}
	// What the last one has not written yet is not this one's.
	syscall.Sync()
	begin := time.Now()
	if _, err := run(ctx, command[0], command[1:]...); err != nil {
		return 0, err
	}
	if sync {
		if _, err := run(ctx, "sync", to); err != nil {
			return 0, err
		}
	}
	return time.Since(begin).Seconds(), nil
}

// measureMemory finds the most memory that an import has at a time, that of a converter included.
func measureMemory(ctx context.Context, dir string) error {
	raw, to := filepath.Join(dir, "raw"), filepath.Join(dir, "disk")
	if err := makeDisk(raw, 8*gib, 32); err != nil {
		return err
	}
	small := filepath.Join(dir, "small")
	if err := makeDisk(small, gib, 32); err != nil {
		return err
	}
	most := 0.0
	for _, format := range []struct{ name, make string }{
		{"raw", `cp --sparse=always "$1" "$3"`},
		{"qcow2", `qemu-img convert -f raw -O qcow2 "$1" "$3"`},
		{"gzip", `gzip -1 -c "$1" > "$3"`},
		{"zstd", `zstd -q -c "$1" > "$3"`},
		// It takes minutes for more, and no more memory.
		{"xz", `xz -T2 -c "$2" > "$3"`},
	} {
		from := filepath.Join(dir, "image."+format.name)
		if _, err := run(ctx, "sh", "-c", format.make, "sh", raw, small, from); err != nil {
			return err
		}
		command := fillCommand(from, to)
		usage, err := run(ctx, command[0], command[1:]...)
		if err != nil {
			return err
		}
		peak := float64(usage.Maxrss) / 1024
		fmt.Printf("figure import.rss.%s.mib %.1f MiB\n", format.name, peak)
		most = max(most, peak)
		if err := os.Remove(to); err != nil {
			return err
		}
	}
	fmt.Printf("figure import.rss.mib %.1f MiB\n", most)
	return nil
}

// self stands for this program.
const self = "/proc/self/exe"

// fillCommand is this program as one that only fills a disk.
func fillCommand(from, to string) []string {
	return []string{self, "-fill", from, to}
}

// run runs a command, and returns what it has used, with its children.
func run(ctx context.Context, name string, args ...string) (*syscall.Rusage, error) {
	if name == self {
		var err error
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, fmt.Errorf("%s: its usage is not known", cmd)
	}
	return usage, nil
}

// makeDisk makes a sparse disk of which one part in so many has data, in pieces of 4 MiB, a quarter of which is zeros that are written.
func makeDisk(path string, size int64, part int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	noise := rand.NewChaCha8([32]byte{1})
	piece := make([]byte, 4*mib)
	for at := int64(0); at < size; at += part * int64(len(piece)) {
		if _, err := noise.Read(piece[:3*mib]); err != nil {
			return err
		}
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Close()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
