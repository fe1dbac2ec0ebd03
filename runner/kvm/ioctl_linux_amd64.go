package kvm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of /dev/kvm and what it hands out, from linux/kvm.h.
const (
	kvmGetAPIVersion       = 0xae00
	kvmCreateVM            = 0xae01
	kvmGetVCPUMmapSize     = 0xae04
	kvmGetSupportedCPUID   = 0xc008ae05
	kvmCreateVCPU          = 0xae41
	kvmSetUserMemoryRegion = 0x4020ae46
	kvmSetTSSAddr          = 0xae47
	kvmCreateIRQChip       = 0xae60
	kvmRun                 = 0xae80
	kvmSetRegs             = 0x4090ae82
	kvmGetSregs            = 0x8138ae83
	kvmSetSregs            = 0x4138ae84
	kvmSetCPUID2           = 0x4008ae90
)

// Reasons for which the CPU leaves the guest.
const (
	exitIO            = 2
	exitInternalError = 17
)

// immediateExit is the value of runState.flags that makes KVM return before it enters the guest.
const immediateExit = 1 << 8

// runState is the start of struct kvm_run, in the case of a port access.
type runState struct {
	flags         uint32 // bytes request_interrupt_window, immediate_exit, padding
	_             uint32
	reason        uint32
	_             [5]uint32
	direction     uint8
	width         uint8
	port          uint16
	count         uint32
	dataFromStart uint64
}

// memoryRegion is struct kvm_userspace_memory_region.
type memoryRegion struct {
	slot, flags       uint32
	guest, size, host uint64
}

// regs is struct kvm_regs.
type regs struct {
	rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp uint64
	r8, r9, r10, r11, r12, r13, r14, r15   uint64
	rip, rflags                            uint64
}

// sregs is struct kvm_sregs.
type sregs struct {
	cs, ds, es, fs, gs, ss, tr, ldt           segment
	gdt, idt                                  descriptors
	cr0, cr2, cr3, cr4, cr8, efer, apicBaseIs uint64
	pending                                   [4]uint64
}

// segment is struct kvm_segment.
type segment struct {
	base                                           uint64
	limit                                          uint32
	selector                                       uint16
	kind, present, dpl, db, s, l, g, avl, unusable uint8
	_                                              uint8
}

// descriptors is struct kvm_dtable.
type descriptors struct {
	base  uint64
	limit uint16
	_     [3]uint16
}

// cpuid is struct kvm_cpuid2 with room for as many entries as KVM has at most.
type cpuid struct {
	count, _ uint32
	entries  [256][10]uint32
}

func ioctl(fd int, request, argument uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, argument)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

func ioctlPointer(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
