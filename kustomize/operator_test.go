package kustomize_test

import "testing"

// In the place of Viti Stack's operator the manager works under the names that this had, in other namespaces, too.
func TestKubeVirtOperatorWorks(t *testing.T) {
	c := admin(t)
	c.namespace("operated")
	m := c.install("kubevirt-operator-system", build(t, "overlays/kubevirt-operator"))
	c.ready(m)
	c.vm("operated", "web", specWithDisk())
	c.rendered("operated", "web")
	c.noForbidden(m)
}
