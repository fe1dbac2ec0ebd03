package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// few is how many VirtualMachines there are where their number does not matter.
const few = 20

// compare says where a world differs from one that nothing has disturbed. A manager whose watches were broken sees what it has left to
// do when it has them again, which takes its client up to half a minute; and in the end it has nothing left to do.
func (w *world) compare(users ...string) {
	w.Helper()
	want := undisturbed(w.T, w.vms)
	differs := func() string {
		if diff := cmp.Diff(want, w.state()); diff != "" {
			return "the end state is another one (-undisturbed +this):\n" + diff
		}
		return ""
	}
	w.settle(users...)
	w.eventually(differs)
	w.settle(users...)
	if diff := differs(); diff != "" {
		w.Error(diff)
	}
}

// settle waits until users have written nothing for a while.
func (w *world) settle(users ...string) {
	w.Helper()
	last, since := -1, time.Now()
	w.eventually(func() string {
		if n := len(w.writes(w.mark, users...)); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return "it keeps writing"
		}
		return ""
	})
}

// killed kills the manager again and again while there are three applies of each of so many VirtualMachines, after a random number of
// its writes, at most this many, and starts it again. Nothing is lost, left over, or doubled.
func killed(t *testing.T, vms, atMost int) {
	w := newWorld(t, vms)
	config := w.admin("killed")
	random := rand.New(rand.NewPCG(5, 7))
	m, kills, until := w.siteManager(config), 0, 10
	since := w.now()
	w.meanwhile = func() {
		alive(t, m)
		if len(w.writes(since, "killed")) < until {
			return
		}
		m.Kill()
		kills, until, since = kills+1, 1+random.IntN(atMost), w.now()
		m = w.siteManager(config)
	}
	w.live()
	w.meanwhile = nil
	if t.Logf("killed %d times", kills); kills < 5 {
		t.Error("it was not killed often")
	}
	m.Kill()
	// The last one finds nothing left to do.
	w.siteManager(config)
	w.compare("killed")
}

// TestKilled kills the manager at random points of 60 applies; make test-long does it with 300.
func TestKilled(t *testing.T) { killed(t, few, 120) }

// TestFaultyServer gives the manager wrong answers of all kinds, loses right ones, and cuts its watches.
func TestFaultyServer(t *testing.T) {
	w := newWorld(t, few)
	proxy, err := testserver.NewProxy(w.admin("faulty"))
	w.must(err)
	defer proxy.Close()
	proxy.SetFaults(testserver.Mixed(11, 0.15))
	m := w.siteManager(proxy.Config)
	w.live()
	for _, fault := range []string{"409", "429", "500", "503", "lost", "cut"} {
		if proxy.Counts()[fault] == 0 {
			t.Errorf("the fault %s was never given: %v", fault, proxy.Counts())
		}
	}
	proxy.SetFaults(nil)
	w.compare("faulty")
	alive(t, m)
}

// TestServerRestarted kills the API server while there is work, and starts it again: the manager goes on.
func TestServerRestarted(t *testing.T) {
	w := newWorld(t, few)
	m := w.siteManager(w.admin("restarted"))
	w.meanwhile = func() {
		if len(w.writes(w.mark, "restarted")) < few {
			return
		}
		w.meanwhile = nil
		w.must(server.Restart(t.Context(), 2*time.Second))
	}
	w.live()
	if w.meanwhile != nil {
		t.Error("the server was not restarted")
	}
	w.compare("restarted")
	alive(t, m)
}

// TestSlowEtcd has every request of the API server to etcd take longer.
func TestSlowEtcd(t *testing.T) {
	w := newWorld(t, few)
	undisturbed(t, few)
	server.SlowEtcd(30 * time.Millisecond)
	defer server.SlowEtcd(0)
	w.siteManager(w.admin("slowed"))
	w.live()
	w.compare("slowed")
}

// TestLeaderKilled has two managers, of which the one that works is killed while it does. The other takes over, and never do both
// write.
func TestLeaderKilled(t *testing.T) {
	w := newWorld(t, few)
	users := []string{"leader-1", "leader-2"}
	managers := map[string]*testserver.Process{}
	for _, u := range users {
		managers[u] = w.siteManager(w.admin(u), "--leader-election")
	}
	first := ""
	w.meanwhile = func() {
		if writes := w.writes(w.mark, users...); first == "" && len(writes) >= few {
			first = writes[0].User
			managers[first].Kill()
		}
	}
	w.live()
	handovers, last := 0, first
	for _, r := range w.writes(w.mark, users...) {
		if r.User != last {
			handovers, last = handovers+1, r.User
		}
	}
	if handovers != 1 {
		t.Errorf("the one who writes has changed %d times, want once", handovers)
	}
	w.compare(users...)
}
