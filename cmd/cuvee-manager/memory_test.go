package main

import (
	"runtime"
	"sync"
	"testing"
	"weak"
)

// Memory is given back once after work, and not while there is more to do.
func TestMemoryUse(t *testing.T) {
	const mib = 1 << 20
	var m memoryUse
	steps := []struct {
		name string
		more uint64
		want bool
	}{
		{"Start", 100 * mib, false},
		{"AfterStart", 1 * mib, true},
		{"Idle", 1 * mib, false},
		{"Work", 50 * mib, false},
		{"MoreWork", 5 * mib, false},
		{"AfterWork", 3 * mib, true},
		{"LittleWork", 10 * mib, false},
		{"AfterLittleWork", 0, false},
	}
	var now uint64
	for _, s := range steps {
		now += s.more
		if got := m.idle(now); got != s.want {
			t.Errorf("%s: idle is %v, want %v", s.name, got, s.want)
		}
	}
}

// Pools are empty after memory was given back.
func TestGiveBack(t *testing.T) {
	var pool sync.Pool
	table := new([1 << 16]byte)
	pool.Put(table)
	kept := weak.Make(table)
	giveBack()
	if kept.Value() != nil {
		t.Error("what lay in a pool is still there")
	}
	runtime.KeepAlive(&pool)
}
