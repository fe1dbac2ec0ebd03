package kvm

import (
	"encoding/binary"
	"slices"
)

// The guest's memory: tables, program, interrupt handler and stack, each in a page of its own.
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
	stack     = 0xf000 // grows down
)

const (
	codeSelector = 0x08
	dataSelector = 0x10
	timerVector  = 0x20
	apicBase     = 0xfee00000
	// loops is how far the guest counts in its first step.
	loops = 4_000_000
)

// The ports that the guest writes to when it has done a step. No device of KVM's listens there.
const (
	portCounted = 0xe8
	portWoken   = 0xe9
)

// steps are the guest's steps in order, by the port that reports each, for errors.
var steps = []struct {
	port uint16
	what string
}{
	{portCounted, "counting in a loop in 64-bit kernel mode"},
	{portWoken, "being woken by the timer of the local APIC"},
}

// guestProgram is the machine code of a guest and of its handler for the timer's interrupt.
type guestProgram struct{ main, handler []byte }

// program returns the guest that counts down from n and then waits for its timer.
func program(n uint32) guestProgram {
	return guestProgram{
		main: slices.Concat(
			[]byte{0xb9}, le32(n), // mov ecx, n
			[]byte{0xff, 0xc9},           // dec ecx
			[]byte{0x75, 0xfc},           // jnz to dec
			[]byte{0xe6, portCounted},    // out portCounted, al
			[]byte{0xbb}, le32(apicBase), // mov ebx, apicBase
			setAPIC(0x0f0, 0x1ff),       // spurious interrupt vector: 0xff, APIC enabled
			setAPIC(0x3e0, 0x0b),        // timer divider: 1
			setAPIC(0x320, timerVector), // timer: one shot
			setAPIC(0x380, 10_000),      // timer count: starts it
			[]byte{0xfb},                // sti: takes effect after the next instruction,
			[]byte{0xf4},                // hlt: so that no interrupt gets lost before it
			[]byte{0xe6, portWoken},     // out portWoken, al
			[]byte{0xf4},                // hlt
		),
		handler: slices.Concat(
			setAPIC(0x0b0, 0),  // end of interrupt
			[]byte{0x48, 0xcf}, // iretq
		),
	}
}

// setAPIC returns the instruction "mov dword [rbx+register], value".
func setAPIC(register, value uint32) []byte {
	return slices.Concat([]byte{0xc7, 0x83}, le32(register), le32(value))
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// load writes the program and the tables that the CPU needs to the guest's memory.
func (p guestProgram) load(memory []byte) {
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
	put(idt+16*timerVector, 0x00008e00_00000000|codeSelector<<16|handler)

	copy(memory[code:], p.main)
	copy(memory[handler:], p.handler)
}
