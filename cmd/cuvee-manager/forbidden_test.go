package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// TestForbidden has a manager that may do nothing. It says what it may not do, stays, and does not ask again and again.
func TestForbidden(t *testing.T) {
	w := newWorld(t, 1)
	config, err := server.User("nobody")
	w.must(err)
	m := w.manager(config)
	w.eventually(func() string {
		if !strings.Contains(m.Log(), `is forbidden: User \"nobody\" cannot`) {
			return "the manager does not say what it may not do"
		}
		return ""
	})
	mark, err := server.Mark()
	w.must(err)
	<-time.After(5 * time.Second)
	requests, err := server.Since(mark, func(r testserver.Request) bool { return r.User == "nobody" })
	w.must(err)
	if len(requests) > 100 {
		t.Errorf("it asked %d times in 5 seconds: %v", len(requests), testserver.Count(requests))
	}
	alive(t, m)
}

func alive(t *testing.T, m *testserver.Process) {
	t.Helper()
	select {
	case <-m.Done():
		t.Error("the manager has ended")
	default:
	}
}
