package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// quiet is how long nothing much has to happen until memory is given back.
	quiet = time.Second
	// little is how many bytes are allocated in that time when nothing much happens; looks at resources that are as they were take less.
	little = 4 << 20
	// worthwhile is how many bytes have to have been allocated since: a collection takes some CPU. A manager at rest takes minutes for it.
	worthwhile = 16 << 20
)

// memoryKeeper gives memory back to the system after work: Go keeps as much as the last burst of renders took, for minutes, and that is
// several times what is in use.
type memoryKeeper struct{ engine interface{ Compact() } }

// NeedLeaderElection says that a manager that waits for another one to end gives its memory back, too.
func (memoryKeeper) NeedLeaderElection() bool { return false }

// Start runs until the context is done.
func (m memoryKeeper) Start(ctx context.Context) error {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	var since memoryUse
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if since.idle(allocated()) {
				m.engine.Compact()
				giveBack()
			}
		}
	}
}

// giveBack frees what is not in use. What lies in pools, such as the tables of compressors, is freed by the second collection only.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}

// allocated is how many bytes the program has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// memoryUse follows what is allocated.
type memoryUse struct{ last, freed uint64 }

// idle takes what has been allocated so far, and says whether it is time to give memory back.
func (m *memoryUse) idle(now uint64) bool {
	idle := now-m.last < little && now-m.freed > worthwhile
	m.last = now
	if idle {
		m.freed = now
	}
	return idle
}
