package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/bench/proc"
	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// measureRunner prints the figures of the program cuvee-runner; bench/runner.sh says what they are.
func measureRunner(ctx context.Context, o options, dir string) error {
	info, err := os.Stat(o.runner)
	if err != nil {
		return err
	}
	fmt.Printf("figure runner.binary.mib %.1f MiB\n", mib(info.Size()))
	vm, err := prepare(ctx, o, "start.yaml", dir)
	if err != nil {
		return err
	}
	config, err := vm.writeConfig(dir)
	if err != nil {
		return err
	}
	if err := vm.compareStarts(ctx, o, config); err != nil {
		return err
	}
	if err := vm.measureQMP(ctx, o.commands); err != nil {
		return fmt.Errorf("QMP: %w", err)
	}
	if o.idle == 0 {
		return nil
	}
	return measureIdle(ctx, o, filepath.Join(dir, "idle"))
}

// compareStarts starts the runner's process and a QEMU without it in turns.
func (v *vm) compareStarts(ctx context.Context, o options, config string) error {
	if err := v.firstProcess(ctx, o.runner, config); err != nil {
		return fmt.Errorf("first start of the process: %w", err)
	}
	ratios, ours, bare, err := pairs(o.pairs,
		func() (time.Duration, error) {
			p, err := startProcess(ctx, o.runner, config)
			if err != nil {
				return 0, fmt.Errorf("start of the runner: %w", err)
			}
			p.end()
			return p.took, nil
		},
		func() (time.Duration, error) {
			took, err := v.startBare(ctx)
			if err != nil {
				return 0, fmt.Errorf("start of QEMU: %w", err)
			}
			return took, nil
		})
	if err != nil {
		return err
	}
	fmt.Printf("figure runner.start.vs_qemu %.3f x\n", ratios)
	fmt.Printf("figure runner.start.ms %.1f ms\n", ours)
	fmt.Printf("figure runner.start.qemu.ms %.1f ms\n", bare)
	return nil
}

// measureQMP asks a QEMU whose guest runs for its status, again and again.
func (v *vm) measureQMP(ctx context.Context, commands int) error {
	// The runner has taken its own along.
	if err := write(v.config.Boot.NoCloud.Image, v.image); err != nil {
		return err
	}
	ours, cmd, err := v.startQEMU(ctx, io.Discard)
	if err != nil {
		return err
	}
	defer closeAll(ours)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	conn, err := net.FileConn(ours[v.monitor()])
	if err != nil {
		return err
	}
	monitor := qmp.New(conn)
	if err := monitor.ConnectContext(ctx); err != nil {
		return err
	}
	defer func() { _ = monitor.Disconnect() }()
	if err := monitor.Execute(ctx, "cont", nil, nil); err != nil {
		return err
	}
	took := make([]float64, commands)
	for i := range took {
		begin := time.Now()
		if err := monitor.Execute(ctx, "query-status", nil, nil); err != nil {
			return err
		}
		took[i] = time.Since(begin).Seconds() * 1e3
	}
	slices.Sort(took)
	fmt.Printf("figure qmp.p50.ms %.3f ms\n", took[len(took)/2])
	fmt.Printf("figure qmp.p99.ms %.3f ms\n", took[len(took)*99/100])
	return nil
}

// measureIdle looks at idle VMs of 1 CPU and 1 GiB with a display: one without KVM, then one with it.
func measureIdle(ctx context.Context, o options, dir string) error {
	runner, err := measureEmulated(ctx, o, dir)
	if err != nil {
		return err
	}
	if err := measureKVM(ctx, o, dir+"-kvm", runner); err != nil {
		fmt.Fprintf(os.Stderr, "bench: no figure vm.overhead.mib, which takes KVM: %v\n", err)
	}
	return nil
}

// measureEmulated looks at a VM, and returns the runner's memory.
func measureEmulated(ctx context.Context, o options, dir string) (memory, error) {
	o.accelerator = "tcg"
	vm, err := prepare(ctx, o, "idle.yaml", dir)
	if err != nil {
		return memory{}, err
	}
	config, err := vm.writeConfig(dir)
	if err != nil {
		return memory{}, err
	}
	p, err := startProcess(ctx, o.runner, config)
	if err != nil {
		return memory{}, err
	}
	defer p.end()
	// What is done once after the start is not idling.
	if err := pause(ctx, o.idle/2); err != nil {
		return memory{}, err
	}
	before, err := proc.CPUTime(p.cmd.Process.Pid)
	if err != nil {
		return memory{}, err
	}
	begin := time.Now()
	if err := pause(ctx, o.idle); err != nil {
		return memory{}, err
	}
	after, err := proc.CPUTime(p.cmd.Process.Pid)
	if err != nil {
		return memory{}, err
	}
	fmt.Printf("figure runner.idle.cpu_percent %.3f %%\n", 100*(after-before).Seconds()/time.Since(begin).Seconds())
	return p.printMemory()
}

// printMemory prints what the two processes have in memory, and returns the runner's part.
func (p *runnerProcess) printMemory() (memory, error) {
	runner, err := memoryOf(p.cmd.Process.Pid, 0)
	if err != nil {
		return memory{}, err
	}
	qemu, err := memoryOf(p.qemu, idleRAM)
	if err != nil {
		return memory{}, err
	}
	fmt.Printf("figure runner.rss.mib %.1f MiB\n", mib(runner.rss))
	return runner, printOverhead("vm.overhead.tcg", runner, qemu)
}

// measureKVM looks at a QEMU with KVM, which has no translated code. Firmware runs under a KVM that is not
// good enough for the program cuvee-runner; so the runner's part is that of the other VM, as it does not depend on KVM.
func measureKVM(ctx context.Context, o options, dir string, runner memory) error {
	o.accelerator = "kvm"
	vm, err := prepare(ctx, o, "idle.yaml", dir)
	if err != nil {
		return err
	}
	_, err = vm.run(ctx, nil, func() error { return nil }, func() error {
		pid, err := childOf(os.Getpid(), "qemu-system-x86")
		if err != nil {
			return err
		}
		if err := pause(ctx, o.idle); err != nil {
			return err
		}
		qemu, err := memoryOf(pid, idleRAM)
		if err != nil {
			return err
		}
		return printOverhead("vm.overhead", runner, qemu)
	})
	return err
}

func printOverhead(name string, runner, qemu memory) error {
	if qemu.guest == 0 {
		return fmt.Errorf("QEMU has no mapping of %d bytes, the guest's RAM", idleRAM)
	}
	fmt.Printf("figure %s.mib %.1f MiB\n", name, mib(runner.pss+qemu.pss))
	fmt.Printf("figure %s.qemu.mib %.1f MiB\n", name, mib(qemu.pss))
	fmt.Printf("figure %s.guest_used.mib %.1f MiB\n", name, mib(qemu.guest))
	return nil
}

// pause waits for the passing of time, which is what idling is.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// awaitEnd waits until a process that is not this one's child is gone.
func awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
}
