package controller_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cuvee-vm/cuvee/controller"
)

// Templates that ask for the time are rendered when the clock moves on by their step, and see nothing finer.
func TestClock(t *testing.T) {
	c := newNamespace(t)
	c.installParcels()
	const step = 2 * time.Second
	c.start(one(parcelPackage(t, `
clock: step: "2s"
if !_deleting {
	objects: now: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "now", data: v: engine.now}
}
`)))
	mark, begin := c.mark(), time.Now()
	c.parcel("p", `{}`)
	seen := map[string]bool{}
	c.eventually(func() string {
		if v, ok := c.value("now").(string); ok {
			seen[v] = true
		}
		if len(seen) < 4 {
			return fmt.Sprintf("the clock has been at %d times only", len(seen))
		}
		return ""
	})
	for v := range seen {
		at, err := time.Parse(time.RFC3339, v)
		if c.must(err); !at.Truncate(step).Equal(at) {
			t.Errorf("the clock was at %s, which is no step of %v", v, step)
		}
	}
	writes := 0
	for _, w := range c.writes(mark) {
		if w.Resource == "configmaps" && w.Name == "now" {
			writes++
		}
	}
	if most := int(time.Since(begin)/step) + 2; writes < len(seen) || writes > most {
		t.Errorf("the object was written %d times, want from %d to %d", writes, len(seen), most)
	}
}

// renders is how often the engine has rendered parcels.
func renders(e *controller.Engine) float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	families, err := registry.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		if f.GetName() == "cuvee_renders_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// Templates that ask to be woken are rendered again after that time, though nothing has changed; others are not.
func TestWake(t *testing.T) {
	for name, tc := range map[string]struct {
		extra string
		again bool
	}{"Asked": {`wake: "1s"`, true}, "NotAsked": {"", false}} {
		t.Run(name, func(t *testing.T) {
			c := newNamespace(t)
			c.installParcels()
			e := c.start(one(parcelPackage(t, tc.extra)))
			c.parcel("p", `objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}`)
			c.parcelSays("p", "True", "Applied")
			c.quiet()
			mark, before := c.mark(), renders(e)
			if tc.again {
				c.eventually(func() string {
					if renders(e) < before+3 {
						return "it is not rendered again"
					}
					return ""
				})
			} else if <-time.After(3 * time.Second); renders(e) != before {
				t.Error("it is rendered again")
			}
			for _, w := range c.writes(mark) {
				t.Errorf("written for nothing: %s", w)
			}
		})
	}
}
