package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

const (
	// managed is the namespace that the manager works in, bare that of the bare loop.
	managed, bare = "managed", "bare"
	// workers is how many VMs the manager, and the bare loop, work on at a time.
	workers = 4
	// agent is what the manager calls itself.
	agent = "cuvee-manager"
)

var machines = schema.GroupVersionKind{Group: "vmoperator.jdrupes.org", Version: "v1", Kind: "VirtualMachine"}

// bench is an API server with VMs, and a manager that looks after them.
type bench struct {
	options
	// dir is for files, templates what the manager has as a site's templates.
	dir, templates string
	server         *testserver.Server
	api            *apiserver.Client
	dynamic        dynamic.Interface
	pkg            controller.Package
	manager        *testserver.Process
	// metrics is where the manager serves its metrics.
	metrics string
	// made is how many VMs the manager has, perVM how many objects each of them has.
	made, perVM int
	// elsewhere is how many VMs the bare loop has made.
	elsewhere int
}

func newBench(ctx context.Context, o options, dir string) (*bench, error) {
	b := &bench{options: o, dir: dir, templates: filepath.Join(dir, "templates")}
	if err := os.Mkdir(b.templates, 0o700); err != nil {
		return nil, err
	}
	if err := b.template("package vm\n"); err != nil {
		return nil, err
	}
	var err error
	if b.pkg, err = controller.Load(cuvee.Files, nil, "", "vm"); err != nil {
		return nil, err
	}
	if b.server, err = testserver.Start(); err != nil {
		return nil, err
	}
	if err := b.connect(ctx); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

// template writes the site's template.
func (b *bench) template(text string) error {
	return os.WriteFile(filepath.Join(b.templates, "bench.cue"), []byte(text), 0o600)
}

// connect makes clients, the kind of VMs and the namespaces.
func (b *bench) connect(ctx context.Context) error {
	_, err := envtest.InstallCRDs(b.server.Config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(b.root, "kustomize/crd/vmoperator.jdrupes.org_vms.yaml")}, ErrorIfPathMissing: true, MaxTime: patience,
	})
	if err != nil {
		return fmt.Errorf("install the CustomResourceDefinition: %w", err)
	}
	config := rest.CopyConfig(b.server.Config)
	config.UserAgent = "bench"
	var hc *http.Client
	if hc, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, hc)
	if err != nil {
		return err
	}
	if b.api, err = apiserver.New(config, hc, apiserver.NewMapper(config, hc, mapper)); err != nil {
		return err
	}
	if b.dynamic, err = dynamic.NewForConfigAndClient(config, hc); err != nil {
		return err
	}
	for _, name := range []string{managed, bare} {
		ref := apiserver.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: name}
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
		if _, err := b.api.Create(ctx, ref, []byte(body), "bench", false); err != nil {
			return err
		}
	}
	return nil
}

// end ends what was started.
func (b *bench) end() {
	if b.manager != nil {
		b.manager.Kill()
	}
	if err := b.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// patience is how long something may take that has no figure.
const patience = 2 * time.Minute

// await looks again and again whether something is so, and returns when it was first seen. It may take as long as there are VMs to do
// something with.
func (b *bench) await(ctx context.Context, what string, is func() (bool, error)) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(b.vms)*200*time.Millisecond)
	defer cancel()
	for {
		ok, err := is()
		if ok || err != nil {
			return time.Now(), err
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait until %s: %w; the manager's log ends with:\n%s", what, ctx.Err(), tail(b.manager.Log()))
		case <-b.manager.Done():
			return time.Time{}, fmt.Errorf("wait until %s: the manager has ended:\n%s", what, tail(b.manager.Log()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func tail(log string) string { return log[max(0, len(log)-2000):] }

// writes counts what the manager has written since a moment, but for Events and leases.
type writes struct {
	server *testserver.Server
	mark   testserver.Mark
	all    []testserver.Request
	// objects are those of VMs that were written without a fault, each once.
	objects map[object]bool
}

// object names an object in the manager's namespace.
type object struct{ resource, name string }

func (b *bench) writes() (*writes, error) {
	mark, err := b.server.Mark()
	return &writes{server: b.server, mark: mark, objects: map[object]bool{}}, err
}

// follow counts what was written since it was called last.
func (w *writes) follow() error {
	news, mark, err := w.server.Follow(w.mark, func(r testserver.Request) bool {
		return r.Agent == agent && r.IsWrite() && !r.IsLease() && r.Resource != "events"
	})
	if err != nil {
		return err
	}
	w.mark, w.all = mark, append(w.all, news...)
	for _, r := range news {
		if r.Code < 300 && r.Subresource == "" && r.Resource != "vms" && r.Namespace == managed {
			w.objects[object{r.Resource, r.Name}] = true
		}
	}
	return nil
}
