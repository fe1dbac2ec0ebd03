package controller_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// startBehind starts an engine that reaches the API server through a proxy.
func (c *cluster) startBehind(proxy *testserver.Proxy) {
	c.Helper()
	config := rest.CopyConfig(proxy.Config)
	c.agent = fmt.Sprintf("engine-%s-%d", c.namespace, time.Now().UnixNano())
	config.UserAgent = c.agent
	hc, err := rest.HTTPClientFor(config)
	c.must(err)
	c.startWith(config, hc, one(vmPackage(c.T)))
}

// newProxy makes a proxy for an administrator, which ends with the test.
func (c *cluster) newProxy() *testserver.Proxy {
	c.Helper()
	proxy, err := testserver.NewProxy(server.Config)
	c.must(err)
	c.Cleanup(proxy.Close)
	return proxy
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// What happens while watches break, or are too far behind to go on, is seen all the same: changes, and what is gone.
func TestBrokenWatches(t *testing.T) {
	c := newNamespace(t)
	proxy := c.newProxy()
	// gone is how many watches are still to be told that they are too far behind.
	var gone atomic.Int64
	proxy.SetFaults(func(r *http.Request) testserver.Fault {
		switch {
		case !isWatch(r):
			return testserver.Fault{}
		case gone.Add(-1) >= 0:
			return testserver.Fault{Status: http.StatusGone}
		}
		return testserver.Fault{Cut: 1500 * time.Millisecond}
	})
	c.startBehind(proxy)
	c.create(vmManifest, "web")
	c.applied("web")
	const behind = 6
	for _, fault := range []string{"cut", "410"} {
		if fault == "410" {
			gone.Store(behind)
		}
		c.eventually(func() string {
			if n := proxy.Counts()[fault]; n < behind {
				return fmt.Sprintf("the fault %s was given %d times", fault, n)
			}
			return ""
		})
		c.patch("apps/v1", "StatefulSet", "web", `{"spec":{"replicas":0}}`)
		c.replicas(1)
		was := c.get("v1", "ConfigMap", "web")
		c.must(api.Delete(t.Context(), was))
		c.eventually(func() string {
			if now := c.get("v1", "ConfigMap", "web"); now == nil || now.GetUID() == was.GetUID() {
				return "what was deleted is not made again"
			}
			return ""
		})
		c.create(vmManifest, "made-in-"+fault)
		c.applied("made-in-" + fault)
	}
}

// A right to watch that is taken away is told, as changes are not seen any more; VMs go on as soon as it is back.
func TestWatchIsForbidden(t *testing.T) {
	c := newNamespace(t)
	proxy := c.newProxy()
	var forbidden atomic.Bool
	proxy.SetFaults(func(r *http.Request) testserver.Fault {
		switch {
		case r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/configmaps"):
			return testserver.Fault{}
		case forbidden.Load():
			return testserver.Fault{Status: http.StatusForbidden}
		}
		return testserver.Fault{Cut: 300 * time.Millisecond}
	})
	c.startBehind(proxy)
	c.create(vmManifest, "web")
	c.applied("web")
	forbidden.Store(true)
	if m := c.waitFor("web", "Ready", "False", "WaitingForWatch"); !strings.Contains(m, "cannot watch objects of the kind ConfigMap") {
		t.Errorf("the message is %s", m)
	}
	forbidden.Store(false)
	c.applied("web")
}

// deafen cuts the watches of a resource behind a proxy all the time. What it returns keeps them from beginning again, each for some time,
// and returns when the engine hears no more of the resource.
func (c *cluster) deafen(proxy *testserver.Proxy, resource string, each time.Duration) func(deaf bool) {
	var held atomic.Bool
	proxy.SetFaults(func(r *http.Request) testserver.Fault {
		switch {
		case r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, resource):
			return testserver.Fault{}
		case held.Load():
			return testserver.Fault{Delay: each}
		}
		return testserver.Fault{Cut: 300 * time.Millisecond}
	})
	return func(deaf bool) {
		c.Helper()
		held.Store(deaf)
		if !deaf {
			return
		}
		c.eventually(func() string {
			if proxy.Counts()["delay"] == 0 {
				return "the engine still hears of " + resource
			}
			return ""
		})
	}
}

// An object that somebody has made a moment ago, and that no watch has told of yet, is not overwritten by force: it may be
// another's.
func TestUnseenObjectIsNotTaken(t *testing.T) {
	c := newNamespace(t)
	proxy := c.newProxy()
	deaf := c.deafen(proxy, "/configmaps", time.Hour)
	c.startBehind(proxy)
	c.create(vmManifest, "first")
	c.applied("first")
	deaf(true)
	c.create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: 1-2-3, controller: true}]}, data: {config.json: theirs}}`)
	c.create(vmManifest, "web")
	if m := c.waitFor("web", "Ready", "False", "Conflict"); !strings.Contains(m, "ConfigMap "+c.namespace+"/web has just been made by someone else") {
		t.Errorf("the message is %s", m)
	}
	deaf(false)
	c.quiet()
	if got := at(c.get("v1", "ConfigMap", "web"), "data", "config.json"); got != "theirs" {
		t.Errorf("the ConfigMap of another was overwritten: %v", got)
	}
}
