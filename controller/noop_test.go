package controller_test

import "testing"

// Over an unchanged world an engine writes nothing: neither the one that made it, nor one that starts anew.
func TestNoWrites(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"a", "b", "c"} {
		c.create(vmManifest, name)
		c.applied(name)
	}
	c.quiet()
	if len(c.writes(0)) == 0 {
		t.Fatal("the audit log has none of the engine's writes")
	}
	c.stop()
	mark := c.mark()
	c.start(one(vmPackage(t)))
	// What it writes for another VM proves that it has gone through the others.
	c.create(vmManifest, "z")
	c.applied("z")
	c.quiet()
	for _, r := range c.writes(mark) {
		if r.Name == "a" || r.Name == "b" || r.Name == "c" {
			t.Errorf("written for nothing: %s", r)
		}
	}
}
