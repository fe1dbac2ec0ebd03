package controller_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/cuvee-vm/cuvee/controller"
)

// view looks at the test's namespace as it is.
func (c *cluster) view(p controller.Package) *controller.View {
	c.Helper()
	hc, err := rest.HTTPClientFor(server.Config)
	c.must(err)
	mapper, err := apiutil.NewDynamicRESTMapper(server.Config, hc)
	c.must(err)
	v, err := controller.NewView(c.Context(), controller.Options{
		Config: server.Config, HTTPClient: hc, Mapper: mapper, Namespaces: []string{c.namespace}, OwnNamespace: c.namespace,
	}, p)
	c.must(err)
	return v
}

// Where the templates look is known of the first one; the others are rendered once, also if their specifications differ.
func TestPreviewRendersOnce(t *testing.T) {
	c := newCluster(t)
	sizes := map[string]string{"web": "1Gi", "mail": "2Gi", "db": "3Gi"}
	for name, size := range sizes {
		c.create(strings.Replace(vmManifest, "storage: 1Gi", "storage: "+size, 1), name)
	}
	for name := range sizes {
		c.applied(name)
	}
	c.stop()
	p := vmPackage(t)
	v := c.view(p)
	before := renders(v.Engine())
	for _, item := range v.Resources() {
		object, err := item.Object()
		c.must(err)
		preview, err := v.Preview(p, item, object)
		c.must(err)
		if len(preview.Input.Observed["claims"]) == 0 {
			t.Errorf("the templates have not seen the claims of %s", item.Name())
		}
	}
	if got, want := renders(v.Engine())-before, float64(len(sizes)+1); got != want {
		t.Errorf("%d VMs were rendered %v times, want %v", len(sizes), got, want)
	}
}
