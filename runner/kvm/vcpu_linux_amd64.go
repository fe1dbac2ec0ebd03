package kvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machine is a virtual machine with one CPU.
type machine struct {
	kvm, vm, cpu int    // file descriptors, -1 if not open
	memory       []byte // the guest's
	run          []byte // what the CPU shares with the host's kernel: a runState
}

// runGuest runs a guest until it has done all steps. The error says which it did not do and why; if
// the context ended, that is the context's cause.
func runGuest(ctx context.Context, steps []step) error {
	m := &machine{kvm: -1, vm: -1, cpu: -1}
	defer m.close()
	if err := m.create(); err != nil {
		return err
	}
	if err := m.createCPU(); err != nil {
		return err
	}
	load(m.memory, steps)
	if err := m.reset(); err != nil {
		return err
	}
	for i, s := range steps {
		if err := m.runTo(ctx, firstPort+uint16(i)); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// create makes the virtual machine, with memory and interrupt controllers.
func (m *machine) create() (err error) {
	if m.kvm, err = unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("%w: %w", errOpen, &os.PathError{Op: "open", Path: "/dev/kvm", Err: err})
	}
	version, err := ioctl(m.kvm, kvmGetAPIVersion, 0)
	if err != nil {
		return fmt.Errorf("get the API version: %w", err)
	}
	// The only version there is: the documentation asks to refuse others.
	if version != 12 {
		return fmt.Errorf("API version %d instead of 12", version)
	}
	if m.vm, err = ioctl(m.kvm, kvmCreateVM, 0); err != nil {
		return fmt.Errorf("create a virtual machine: %w", err)
	}
	// KVM needs three pages of the guest's addresses for itself on some Intel CPUs. QEMU puts them here, too.
	if _, err = ioctl(m.vm, kvmSetTSSAddr, 0xfffbd000); err != nil {
		return fmt.Errorf("set the TSS address: %w", err)
	}
	if _, err = ioctl(m.vm, kvmCreateIRQChip, 0); err != nil {
		return fmt.Errorf("create interrupt controllers: %w", err)
	}
	if m.memory, err = unix.Mmap(-1, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("allocate memory: %w", err)
	}
	region := memoryRegion{size: memorySize, host: uint64(uintptr(unsafe.Pointer(&m.memory[0])))}
	if err := ioctlPointer(m.vm, kvmSetUserMemoryRegion, unsafe.Pointer(&region)); err != nil {
		return fmt.Errorf("set the memory: %w", err)
	}
	return nil
}

// createCPU adds a CPU with all features that KVM can give it.
func (m *machine) createCPU() (err error) {
	if m.cpu, err = ioctl(m.vm, kvmCreateVCPU, 0); err != nil {
		return fmt.Errorf("create a CPU: %w", err)
	}
	size, err := ioctl(m.kvm, kvmGetVCPUMmapSize, 0)
	if err != nil {
		return fmt.Errorf("get the size of the CPU's state: %w", err)
	}
	if m.run, err = unix.Mmap(m.cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the CPU's state: %w", err)
	}
	id := cpuid{count: uint32(len(cpuid{}.entries))}
	if err := ioctlPointer(m.kvm, kvmGetSupportedCPUID, unsafe.Pointer(&id)); err != nil {
		return fmt.Errorf("get CPU features: %w", err)
	}
	if err := ioctlPointer(m.cpu, kvmSetCPUID2, unsafe.Pointer(&id)); err != nil {
		return fmt.Errorf("set CPU features: %w", err)
	}
	return nil
}

// reset puts the CPU at the start of the program: 64-bit mode, paging, privilege level 0, no interrupts.
func (m *machine) reset() error {
	const (
		cr0PE, cr0ET, cr0NE, cr0WP, cr0PG = 1 << 0, 1 << 4, 1 << 5, 1 << 16, 1 << 31
		cr4PAE                            = 1 << 5
		eferLME, eferLMA                  = 1 << 8, 1 << 10
		flagsReserved                     = 1 << 1 // always set
	)
	var s sregs
	if err := ioctlPointer(m.cpu, kvmGetSregs, unsafe.Pointer(&s)); err != nil {
		return fmt.Errorf("get control registers: %w", err)
	}
	s.cr0 = cr0PE | cr0ET | cr0NE | cr0WP | cr0PG
	s.cr3 = pml4
	s.cr4 = cr4PAE
	s.efer = eferLME | eferLMA
	s.gdt = descriptors{base: gdt, limit: dataSelector + 7}
	s.idt = descriptors{base: idt, limit: 256*16 - 1}
	s.cs = segment{limit: 0xffffffff, selector: codeSelector, kind: 11, present: 1, s: 1, l: 1, g: 1}
	flat := segment{limit: 0xffffffff, selector: dataSelector, kind: 3, present: 1, s: 1, db: 1, g: 1}
	s.ds, s.es, s.fs, s.gs, s.ss = flat, flat, flat, flat, flat
	if err := ioctlPointer(m.cpu, kvmSetSregs, unsafe.Pointer(&s)); err != nil {
		return fmt.Errorf("set control registers: %w", err)
	}
	if err := ioctlPointer(m.cpu, kvmSetRegs, unsafe.Pointer(&regs{rip: code, rsp: stack, rflags: flagsReserved})); err != nil {
		return fmt.Errorf("set registers: %w", err)
	}
	return nil
}

// runTo runs the CPU until the guest writes to the port. When the context ends, KVM is made to give the
// CPU back.
func (m *machine) runTo(ctx context.Context, port uint16) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	state := (*runState)(unsafe.Pointer(&m.run[0]))
	pid, thread := unix.Getpid(), unix.Gettid()
	kicked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(kicked)
		// The flag is for a CPU that is about to enter the guest, the signal for one that is there. The
		// signal is the one that Go's runtime uses itself, so that any number of them is harmless. If it
		// cannot be sent, Probe still returns.
		atomic.StoreUint32(&state.flags, immediateExit)
		_ = unix.Tgkill(pid, thread, unix.SIGURG)
	})
	// The state must stay mapped, and the thread this one, while it is being kicked.
	defer func() {
		if !stop() {
			<-kicked
		}
	}()
	for {
		_, err := ioctl(m.cpu, kvmRun, 0)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, unix.EINTR):
			continue // a signal for something else
		case err != nil:
			return fmt.Errorf("run the CPU: %w", err)
		case state.reason == exitIO && state.port == port:
			return nil
		case state.reason == exitInternalError:
			return errors.New("KVM cannot emulate this, and has no CPU to run it on")
		}
		return fmt.Errorf("the guest ended with KVM's exit reason %d", state.reason)
	}
}

// close frees what create and createCPU made. Errors are of no interest: the guest has had its run.
func (m *machine) close() {
	for _, b := range [][]byte{m.run, m.memory} {
		if b != nil {
			_ = unix.Munmap(b)
		}
	}
	for _, fd := range []int{m.cpu, m.vm, m.kvm} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
