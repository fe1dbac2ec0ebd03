package main

import (
	"strings"
	"testing"
)

// TestDebugAddress serves profiles where it is asked to. Nothing does so by itself.
func TestDebugAddress(t *testing.T) {
	const profile = "/debug/pprof/heap?debug=1"
	w := newWorld(t, 1)
	address := w.address()
	w.manager(w.admin("debug"), "--debug-address", address)
	w.eventually(func() string { return lacks(get(address, profile), "heap profile") })

	address = w.address()
	w.manager(w.admin("debug"), "--metrics-bind-address", address)
	w.eventually(func() string { return lacks(get(address, templatesPage), "for VirtualMachine") })
	if text := get(address, profile); strings.Contains(text, "heap profile") {
		t.Errorf("profiles are beside the metrics:\n%s", text[:min(len(text), 500)])
	}
}
