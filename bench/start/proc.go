package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// idleRAM is the RAM of the VM in bench/testdata/idle.yaml, in bytes.
const idleRAM = 1 << 30

// memory is what a process has in memory, in bytes.
type memory struct {
	rss int64
	// pss has its part of what it shares with others, but not the guest's RAM.
	pss int64
	// guest is what it has in memory of the guest's RAM.
	guest int64
}

var (
	mappingLine = regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) `)
	sizeLine    = regexp.MustCompile(`^(Rss|Pss): +([0-9]+) kB$`)
)

// memoryOf reads the mappings of a process; the one of exactly ram bytes is its guest's RAM.
func memoryOf(pid int, ram int64) (memory, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return memory{}, err
	}
	defer f.Close()
	var m memory
	var isGuest bool
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if at := mappingLine.FindStringSubmatch(lines.Text()); at != nil {
			// The pattern takes hexadecimal digits only.
			from, _ := strconv.ParseUint(at[1], 16, 64)
			to, _ := strconv.ParseUint(at[2], 16, 64)
			isGuest = ram > 0 && to-from == uint64(ram)
		}
		size := sizeLine.FindStringSubmatch(lines.Text())
		if size == nil {
			continue
		}
		kib, err := strconv.ParseInt(size[2], 10, 64)
		if err != nil {
			return memory{}, err
		}
		switch {
		case size[1] == "Rss":
			m.rss += kib << 10
		case isGuest:
			m.guest += kib << 10
		default:
			m.pss += kib << 10
		}
	}
	return m, lines.Err()
}
