package controller_test

import "testing"

// What the engine keeps moves when there is nothing to do, and it goes on as before: it writes nothing for that, corrects what somebody
// changes, makes a certificate anew that no label leads back from, follows the custom resource, and forgets it in the end.
func TestCompact(t *testing.T) {
	c := newNamespace(t)
	e := c.start(one(vmPackage(t)))
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	mark := c.mark()
	e.Compact()
	c.quiet()
	for _, w := range c.writes(mark) {
		t.Errorf("written for nothing: %s", w)
	}

	config := at(c.get("v1", "ConfigMap", "web"), "data", "config.json")
	c.patch("v1", "ConfigMap", "web", `{"data":{"config.json":"{}"}}`)
	c.eventually(func() string {
		if at(c.get("v1", "ConfigMap", "web"), "data", "config.json") != config {
			return "what somebody changed is not set back"
		}
		return ""
	})
	certificate := c.get("v1", "Secret", "web-console-tls")
	c.must(api.Delete(t.Context(), certificate))
	c.eventually(func() string {
		if now := c.get("v1", "Secret", "web-console-tls"); now == nil || now.GetUID() == certificate.GetUID() {
			return "the certificate is not made anew"
		}
		return ""
	})
	c.quiet()
	e.Compact()
	c.patch("vmoperator.jdrupes.org/v1", "VirtualMachine", "web", `{"spec":{"vm":{"state":"Stopped"}}}`)
	c.eventually(func() string {
		if at(c.get("apps/v1", "StatefulSet", "web"), "spec", "replicas") != int64(0) {
			return "the VM is not stopped"
		}
		return ""
	})
	c.quiet()
	e.Compact()
	c.must(api.Delete(t.Context(), c.vm("web")))
	c.eventually(func() string {
		if c.vm("web") != nil {
			return "the VM is still there"
		}
		return ""
	})
}
