package kvm

import (
	"encoding/binary"
	"slices"
)

// The guest's memory: tables, program, interrupt handler, data and stack, each in a page of its own.
const (
	memorySize = 64 << 10

	pml4      = 0x1000 // first level of the page tables
	pdpt      = 0x2000 // second level
	lowPages  = 0x3000 // third level for the memory
	apicPages = 0x4000 // third level for the local APIC's registers
	gdt       = 0x5000
	idt       = 0x6000
	code      = 0x7000
	handler   = 0x8000
	data      = 0x9000
	stack     = 0xf000 // grows down
)

const (
	codeSelector = 0x08
	dataSelector = 0x10
	timerVector  = 0x20
	apicBase     = 0xfee00000
	// firstPort is written to when the first step is done, the port after it when the second is, and so on.
	// KVM has no device there.
	firstPort = 0xe8
)

// step is a part of the guest's program: machine code that runs in 64-bit mode at privilege level 0,
// where all registers were zero when the guest started.
type step struct {
	what string // for errors: what the guest does not manage
	code []byte
}

// kernelSteps are what the probe asks of a guest.
var kernelSteps = []step{exchange(), count(4_000_000), wake()}

func exchange() step {
	return step{"cmpxchg16b in kernel mode", slices.Concat(
		[]byte{0xbd}, le32(data), // mov ebp, data
		[]byte{0xf0, 0x48, 0x0f, 0xc7, 0x4d, 0x00}, // lock cmpxchg16b [rbp]
	)}
}

func count(n uint32) step {
	return step{"a loop in kernel mode", slices.Concat(
		[]byte{0xb9}, le32(n), // mov ecx, n
		[]byte{0xff, 0xc9}, // dec ecx
		[]byte{0x75, 0xfc}, // jnz to dec
	)}
}

func wake() step {
	return step{"an interrupt of the local APIC's timer", slices.Concat(
		[]byte{0x31, 0xff},           // xor edi, edi
		[]byte{0xbb}, le32(apicBase), // mov ebx, apicBase
		setAPIC(0x0f0, 0x1ff),       // spurious interrupt vector: 0xff, APIC enabled
		setAPIC(0x3e0, 0x0b),        // timer divider: 1
		setAPIC(0x320, timerVector), // timer: one shot
		setAPIC(0x380, 10_000),      // timer count: starts it
		// Halt until the handler has run. sti takes effect after the next instruction, so that no
		// interrupt comes before hlt.
		[]byte{0xfb, 0xf4, 0xfa}, // sti, hlt, cli
		[]byte{0x85, 0xff},       // test edi, edi
		[]byte{0x74, 0xf9},       // jz to sti
	)}
}

// handlerCode is run by the timer's interrupt, with the APIC's address in rbx. It sets edi.
func handlerCode() []byte {
	return slices.Concat(
		[]byte{0xff, 0xc7}, // inc edi
		setAPIC(0x0b0, 0),  // end of interrupt
		[]byte{0x48, 0xcf}, // iretq
	)
}

// setAPIC returns the instruction "mov dword [rbx+register], value".
func setAPIC(register, value uint32) []byte {
	return slices.Concat([]byte{0xc7, 0x83}, le32(register), le32(value))
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// load writes the steps, and the tables that the CPU needs, to the guest's memory.
func load(memory []byte, steps []step) {
	const (
		present  = 1 << 0
		writable = 1 << 1
		uncached = 1 << 4
		large    = 1 << 7 // a page of 2 MiB
	)
	put := func(address int, v uint64) { binary.LittleEndian.PutUint64(memory[address:], v) }
	put(pml4, pdpt|present|writable)
	put(pdpt, lowPages|present|writable)
	put(pdpt+8*(apicBase>>30), apicPages|present|writable)
	put(lowPages, 0|present|writable|large)
	put(apicPages+8*(apicBase>>21&0x1ff), apicBase|present|writable|large|uncached)

	put(gdt+codeSelector, 0x00af9b000000ffff)
	put(gdt+dataSelector, 0x00cf93000000ffff)
	// An interrupt gate; the handler's address fits the lowest 16 bits.
	put(idt+16*timerVector, 0x8e00<<32|codeSelector<<16|handler)
	copy(memory[handler:], handlerCode())

	at := code
	for i, s := range steps {
		at += copy(memory[at:], s.code)
		at += copy(memory[at:], []byte{0xe6, firstPort + byte(i)}) // out firstPort+i, al
	}
}
