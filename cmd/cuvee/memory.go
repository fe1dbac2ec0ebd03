package main

import (
	"runtime"
	"runtime/debug"
)

const (
	// loadingLimit is how much memory a plan may take before it knows the cluster.
	loadingLimit = 128 << 20
	// room is how much it may take then, beside some times of what it knows: renders leave some megabytes behind each, and the more
	// room there is, the less often they are looked for.
	room = 128 << 20
)

// limitLoading keeps the compiling of templates, which happens once, from taking more memory than what comes after it.
func limitLoading() { debug.SetMemoryLimit(loadingLimit) }

// limitPlanning limits memory by what there is to plan for. A percentage alone would take five times what a moment needs at most.
func limitPlanning() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(room + 3*int64(m.HeapAlloc))
}
