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

// errOpen marks errors of opening /dev/kvm: then there is no KVM to call unusable.
var errOpen = errors.New("no KVM")

// vcpu is a virtual machine with one CPU and its memory.
type vcpu struct {
	kvm, vm, cpu int
	memory, run  []byte
}

// runGuest runs a program as a guest until it has reported all its steps. The error says which step it
// did not do, with the cause of the context's end if that was it.
func runGuest(ctx context.Context, p guestProgram) (err error) {
	c := &vcpu{kvm: -1, vm: -1, cpu: -1}
	defer c.close()
	if err := c.create(); err != nil {
		return err
	}
	p.load(c.memory)
	if err := c.reset(); err != nil {
		return err
	}
	for _, step := range steps {
		if err := c.runTo(ctx, step.port); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// create makes the virtual machine.
func (c *vcpu) create() (err error) {
	c.kvm, err = unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errOpen, &os.PathError{Op: "open", Path: "/dev/kvm", Err: err})
	}
	if version, err := ioctl(c.kvm, kvmGetAPIVersion, 0); err != nil || version != 12 {
		return fmt.Errorf("KVM API version %d, not 12: %w", version, err)
	}
	if c.vm, err = ioctl(c.kvm, kvmCreateVM, 0); err != nil {
		return fmt.Errorf("create a virtual machine: %w", err)
	}
	// Some Intel CPUs need three pages of the guest's address space, which must be out of the way.
	if _, err = ioctl(c.vm, kvmSetTSSAddr, 0xfffbd000); err != nil {
		return fmt.Errorf("set the TSS address: %w", err)
	}
	if _, err = ioctl(c.vm, kvmCreateIRQChip, 0); err != nil {
		return fmt.Errorf("create an interrupt controller: %w", err)
	}
	if c.memory, err = unix.Mmap(-1, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return fmt.Errorf("allocate memory: %w", err)
	}
	region := memoryRegion{size: memorySize, host: uint64(uintptr(unsafe.Pointer(&c.memory[0])))}
	if err = ioctlPointer(c.vm, kvmSetUserMemoryRegion, unsafe.Pointer(&region)); err != nil {
		return fmt.Errorf("set the memory: %w", err)
	}
	return c.createCPU()
}

func (c *vcpu) createCPU() (err error) {
	if c.cpu, err = ioctl(c.vm, kvmCreateVCPU, 0); err != nil {
		return fmt.Errorf("create a CPU: %w", err)
	}
	size, err := ioctl(c.kvm, kvmGetVCPUMmapSize, 0)
	if err != nil {
		return fmt.Errorf("get the size of the CPU's state: %w", err)
	}
	if c.run, err = unix.Mmap(c.cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the CPU's state: %w", err)
	}
	// The CPU has all the features that KVM can give it.
	id := cpuid{count: uint32(len(cpuid{}.entries))}
	if err = ioctlPointer(c.kvm, kvmGetSupportedCPUID, unsafe.Pointer(&id)); err != nil {
		return fmt.Errorf("get CPU features: %w", err)
	}
	if err = ioctlPointer(c.cpu, kvmSetCPUID2, unsafe.Pointer(&id)); err != nil {
		return fmt.Errorf("set CPU features: %w", err)
	}
	return nil
}

// reset puts the CPU at the start of the program: 64-bit mode, privilege level 0, paging on.
func (c *vcpu) reset() error {
	const (
		cr0PE, cr0ET, cr0NE, cr0WP, cr0PG = 1 << 0, 1 << 4, 1 << 5, 1 << 16, 1 << 31
		cr4PAE                            = 1 << 5
		eferLME, eferLMA                  = 1 << 8, 1 << 10
	)
	var s sregs
	if err := ioctlPointer(c.cpu, kvmGetSregs, unsafe.Pointer(&s)); err != nil {
		return fmt.Errorf("get the CPU's registers: %w", err)
	}
	s.cr0 = cr0PE | cr0ET | cr0NE | cr0WP | cr0PG
	s.cr3 = pml4
	s.cr4 = cr4PAE
	s.efer = eferLME | eferLMA
	s.gdt = table{base: gdt, limit: dataSelector + 7}
	s.idt = table{base: idt, limit: 256*16 - 1}
	s.cs = segment{limit: 0xffffffff, selector: codeSelector, kind: 11, present: 1, s: 1, l: 1, g: 1}
	data := segment{limit: 0xffffffff, selector: dataSelector, kind: 3, present: 1, s: 1, db: 1, g: 1}
	s.ds, s.es, s.fs, s.gs, s.ss = data, data, data, data, data
	if err := ioctlPointer(c.cpu, kvmSetSregs, unsafe.Pointer(&s)); err != nil {
		return fmt.Errorf("set the CPU's control registers: %w", err)
	}
	// Bit 1 of the flags is always set; interrupts are off.
	if err := ioctlPointer(c.cpu, kvmSetRegs, unsafe.Pointer(&regs{rip: code, rsp: stack, rflags: 1 << 1})); err != nil {
		return fmt.Errorf("set the CPU's registers: %w", err)
	}
	return nil
}

// runTo runs the CPU until the guest writes to the port. When the context ends, KVM is made to return.
func (c *vcpu) runTo(ctx context.Context, port uint16) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	exit := (*runState)(unsafe.Pointer(&c.run[0]))
	pid, thread := unix.Getpid(), unix.Gettid()
	kicked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(kicked)
		// The flag is for a CPU that is about to enter the guest, the signal for one that has. Go's
		// runtime uses this signal itself and takes any number of them.
		atomic.StoreUint32(&exit.flags, immediateExit)
		// A signal that cannot be sent leaves the CPU to the caller's deadline.
		_ = unix.Tgkill(pid, thread, unix.SIGURG)
	})
	defer func() {
		if !stop() {
			<-kicked
		}
	}()
	for {
		_, err := ioctl(c.cpu, kvmRun, 0)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return fmt.Errorf("run the CPU: %w", err)
		case exit.reason == exitIO && exit.port == port:
			return nil
		case exit.reason == exitInterrupted:
			continue
		}
		return fmt.Errorf("the guest stopped with KVM exit reason %d", exit.reason)
	}
}

// close frees everything that create made. Errors would change nothing: the guest has had its run.
func (c *vcpu) close() {
	for _, m := range [][]byte{c.run, c.memory} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	for _, fd := range []int{c.cpu, c.vm, c.kvm} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
