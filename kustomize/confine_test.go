package kustomize_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee/controller/testserver"
	"github.com/cuvee-vm/cuvee/runner"
	apirunner "github.com/cuvee-vm/cuvee/runner/cluster"
)

// confineRunner is the policy's name.
const confineRunner = "cuvee-confine-runner"

// spec is that of a VM with a value of every form.
func spec() map[string]any {
	return map[string]any{
		"guestShutdownStops": true,
		"cloudInit":          map[string]any{"userData": map[string]any{"runcmd": []any{"true"}, "hostname": "web"}},
		"vm": map[string]any{
			"state": "Running", "maximumCpus": int64(2), "maximumRam": "1Gi", "networks": []any{map[string]any{"user": map[string]any{}}},
		},
	}
}

// specWithDisk is that with a disk that leaves open all that it can.
func specWithDisk() map[string]any {
	s := spec()
	s["vm"].(map[string]any)["disks"] = []any{map[string]any{"volumeClaimTemplate": map[string]any{
		"metadata": map[string]any{"name": "system"},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}}
	return s
}

// confined is a namespace with the VMs web and other, their pods, and the policy.
type confined struct {
	*cluster
	ns string
	// web is the pod of web; runner is the cluster as this pod sees it.
	web    *corev1.Pod
	runner *cluster
	token  string
}

func newConfined(t *testing.T, ns string) *confined {
	t.Helper()
	c := &confined{cluster: admin(t), ns: ns}
	c.namespace(ns)
	c.apply(ns, build(t, "base")...)
	c.apply("", build(t, "confine-runner")...)
	c.vm(ns, "web", spec())
	c.vm(ns, "other", spec())
	c.cluster.pod(ns, "other-0")
	c.web = c.cluster.pod(ns, "web-0")
	c.token = c.cluster.token(ns, "vm-runner", c.web)
	c.runner = newCluster(t, server, c.bearer(c.token))
	// An API server follows its policies with a delay.
	c.eventually(func() string {
		if err := c.patch("other", `{"spec":{"vm":{"state":"Stopped"}}}`, client.DryRunAll); !isConfined(err) {
			return "the policy is not in force: " + text(err)
		}
		return ""
	})
	return c
}

// isConfined says that the policy has denied a request.
func isConfined(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), confineRunner)
}

// named is a VirtualMachine by its name only.
func (c *confined) named(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("vmoperator.jdrupes.org/v1")
	o.SetKind("VirtualMachine")
	o.SetNamespace(c.ns)
	o.SetName(name)
	return o
}

// patch changes a VirtualMachine, as the runner.
func (c *confined) patch(name, change string, options ...client.PatchOption) error {
	return c.runner.api.Patch(c.Context(), c.named(name), client.RawPatch(types.MergePatchType, []byte(change)), options...)
}

func (c *confined) patchStatus(name, change string) error {
	return c.runner.api.Status().Patch(c.Context(), c.named(name), client.RawPatch(types.MergePatchType, []byte(change)))
}

func (c *confined) lease(name, holder string) error {
	_, err := c.runner.core.CoordinationV1().Leases(c.ns).Create(c.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
	}, metav1.CreateOptions{})
	return err
}

// event writes one, changed from what is right.
func (c *confined) event(change func(*eventsv1.Event)) error {
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "web.1", Namespace: c.ns}, EventTime: metav1.NowMicro(),
		ReportingController: apirunner.ReportingController, ReportingInstance: "web-0", Action: "StatusUpdate", Reason: "Started", Type: "Normal",
		Regarding: corev1.ObjectReference{APIVersion: "vmoperator.jdrupes.org/v1", Kind: "VirtualMachine", Namespace: c.ns, Name: "web"},
	}
	change(e)
	_, err := c.runner.core.EventsV1().Events(c.ns).Create(c.Context(), e, metav1.CreateOptions{})
	return err
}

// What a runner's token may not do, though its Role allows it. Each names a part of the answer.
func TestConfined(t *testing.T) {
	c := newConfined(t, "confined")
	_, err := c.core.CoordinationV1().Leases(c.ns).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other-disks"}}, metav1.CreateOptions{})
	c.must(err)
	const own, ownMetadata, ownSpec = "its own VM only, which is web", "the metadata", "nothing of its VM's spec but"
	cases := map[string]struct {
		do   func() error
		want string
	}{
		"StateOfOther":    {func() error { return c.patch("other", `{"spec":{"vm":{"state":"Stopped"}}}`) }, own},
		"StatusOfOther":   {func() error { return c.patchStatus("other", `{"status":{"cpus":3}}`) }, own},
		"OwnRAM":          {func() error { return c.patch("web", `{"spec":{"vm":{"maximumRam":"2Gi"}}}`) }, ownSpec},
		"OwnRAMAndState":  {func() error { return c.patch("web", `{"spec":{"vm":{"maximumRam":"2Gi","state":"Stopped"}}}`) }, ownSpec},
		"OwnCPUsAdded":    {func() error { return c.patch("web", `{"spec":{"vm":{"currentCpus":1}}}`) }, ownSpec},
		"OwnCPUsRemoved":  {func() error { return c.patch("web", `{"spec":{"vm":{"networks":null}}}`) }, ownSpec},
		"OwnNode":         {func() error { return c.patch("web", `{"spec":{"nodeName":"n1"}}`) }, ownSpec},
		"OwnImage":        {func() error { return c.patch("web", `{"spec":{"image":{"source":"evil"}}}`) }, ownSpec},
		"OwnUserData":     {func() error { return c.patch("web", `{"spec":{"cloudInit":{"userData":{"runcmd":["false"]}}}}`) }, ownSpec},
		"OwnSpecRemoved":  {func() error { return c.patch("web", `{"spec":{"cloudInit":null}}`) }, ownSpec},
		"OwnLabel":        {func() error { return c.patch("web", `{"metadata":{"labels":{"a":"b"}}}`) }, ownMetadata},
		"OwnAnnotation":   {func() error { return c.patch("web", `{"metadata":{"annotations":{"a":"b"}}}`) }, ownMetadata},
		"OwnFinalizer":    {func() error { return c.patch("web", `{"metadata":{"finalizers":["a.b/c"]}}`) }, ownMetadata},
		"LeaseOfManager":  {func() error { return c.lease("cuvee-manager", "web-0/"+string(c.web.UID)) }, "Lease of its own VM only"},
		"LeaseForAnother": {func() error { return c.lease("web-disks", "other-0/1") }, "in its own name only"},
		"LeaseOfOther":    {func() error { return c.takeLease("other-disks") }, "Lease of its own VM only"},
		"PodOfOther":      {func() error { return c.deletePod("other-0") }, "its own pod only"},
		"EventOfOther":    {func() error { return c.event(func(e *eventsv1.Event) { e.Regarding.Name = "other" }) }, "its own VM only"},
		"EventOfPod":      {func() error { return c.event(func(e *eventsv1.Event) { e.Regarding.Kind = "Pod" }) }, "its own VM only"},
		"EventOfManager":  {func() error { return c.event(func(e *eventsv1.Event) { e.ReportingController = "cuvee-manager" }) }, "in its own name"},
		"EventOfOtherPod": {func() error { return c.event(func(e *eventsv1.Event) { e.ReportingInstance = "other-0" }) }, "in its own name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.do()
			if !isConfined(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the answer is %v, want a denial with %q", err, tc.want)
			}
		})
	}
	// The right ones among them are allowed.
	c.must(c.event(func(*eventsv1.Event) {}))
	c.must(c.lease("web-disks", "web-0/"+string(c.web.UID)))
	c.must(c.patchStatus("web", `{"status":{"cpus":3}}`))
	c.must(c.patch("web", `{"spec":{"vm":{"state":"Stopped"}}}`))
	err = c.patch("web", `{"spec":{"vm":{"state":"Running"}}}`)
	if !isConfined(err) {
		t.Errorf("a runner may start its VM: %v", err)
	}
}

func (c *confined) takeLease(name string) error {
	_, err := c.runner.core.CoordinationV1().Leases(c.ns).Patch(c.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"web-0/`+string(c.web.UID)+`"}}`), metav1.PatchOptions{})
	return err
}

func (c *confined) deletePod(name string) error {
	return c.runner.core.CoreV1().Pods(c.ns).Delete(c.Context(), name, metav1.DeleteOptions{})
}

// A token that is bound to no pod, or to that of no VM, may do nothing.
func TestConfinedWithoutPod(t *testing.T) {
	c := newConfined(t, "confined-unbound")
	debug := c.cluster.pod(c.ns, "debug")
	for name, token := range map[string]string{
		"NoPod":   c.cluster.token(c.ns, "vm-runner", nil),
		"NoVMPod": c.cluster.token(c.ns, "vm-runner", debug),
	} {
		t.Run(name, func(t *testing.T) {
			c.runner = newCluster(t, server, c.bearer(token))
			if err := c.patchStatus("web", `{"status":{"cpus":3}}`); !isConfined(err) {
				t.Errorf("the answer is %v, want a denial", err)
			}
		})
	}
}

// A pod that was made anew has another UID: the token of the last one cannot delete it.
func TestConfinedToOnePod(t *testing.T) {
	c := newConfined(t, "confined-anew")
	c.must(c.core.CoreV1().Pods(c.ns).Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	c.cluster.pod(c.ns, "web-0")
	err := c.deletePod("web-0")
	// The token of a pod that is gone may not even be known any more.
	if !isConfined(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("the answer is %v, want a denial", err)
	}
}

// guest is a VM whose status the test says.
type guest struct {
	mu      sync.Mutex
	status  runner.Status
	changed chan struct{}
	events  chan runner.Event
}

func (g *guest) Status() (runner.Status, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status, g.changed
}

func (g *guest) Events() <-chan runner.Event { return g.events }

// All that a runner asks of the API server is allowed to the token of its pod, and its Role has no right that nothing needs.
func TestRunnerIsNotHindered(t *testing.T) {
	c := newConfined(t, "confined-runner")
	mark, err := server.Mark()
	c.must(err)
	api := apirunner.NewClient(apirunner.Credentials{
		Server: "https://" + strings.TrimPrefix(server.Config.Host, "https://"), TokenFile: write(t, "token", c.token), CAFile: write(t, "ca.crt", string(server.Config.CAData)),
	})
	vm := apirunner.VM{Namespace: c.ns, Name: "web"}
	pod := apirunner.Pod{Namespace: c.ns, Name: "web-0", UID: string(c.web.UID)}
	log := slog.New(slog.DiscardHandler)
	g := &guest{status: runner.Status{State: runner.Booted}, changed: make(chan struct{}), events: make(chan runner.Event, 1)}

	lease := apirunner.NewLease(api, vm, pod, apirunner.LeaseOptions{Name: "web-disks", Duration: 6 * time.Second}, log)
	c.must(lease.Acquire(t.Context()))
	background(t, func(ctx context.Context) { _ = lease.Hold(ctx) })
	background(t, apirunner.NewReporter(api, vm, pod, g, func() int64 { return 0 }, "1.2.3", log).Run)
	background(t, apirunner.NewEventWriter(api, vm, pod, g, log).Run)
	g.events <- runner.Event{Time: time.Now(), Reason: runner.ReasonStarted}
	c.eventually(func() string {
		o := c.named("web")
		c.must(c.api.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if at(o, "status", "runnerVersion") != "1.2.3" {
			return "there is no status"
		}
		events, err := c.core.EventsV1().Events(c.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) == 0 {
			return "there is no Event: " + text(err)
		}
		return ""
	})
	c.eventually(func() string {
		requests, err := server.Since(mark, ofRunner)
		c.must(err)
		if n := testserver.Count(requests)["patch leases"]; n == 0 {
			return "the Lease is not renewed"
		}
		return ""
	})
	// First the VM is marked as stopped, then, as for one that is to start again, the pod is deleted.
	background(t, apirunner.GuestShutdown{Client: api, VM: vm, Pod: pod, Stops: true, Log: log}.Follow)
	c.eventually(func() string {
		o := c.named("web")
		c.must(c.api.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if state := at(o, "spec", "vm", "state"); state != "Stopped" {
			return "the VM is not marked as stopped"
		}
		return ""
	})
	background(t, apirunner.GuestShutdown{Client: api, VM: vm, Pod: pod, Ran: time.Hour, Log: log}.Follow)
	c.eventually(func() string {
		p, err := c.core.CoreV1().Pods(c.ns).Get(t.Context(), "web-0", metav1.GetOptions{})
		if err == nil && p.DeletionTimestamp == nil {
			return "the pod is not deleted"
		}
		return ""
	})
	requests, err := server.Since(mark, ofRunner)
	c.must(err)
	for _, r := range requests {
		if r.Code == 403 || r.Code == 422 {
			t.Errorf("denied: %s", r)
		}
	}
	role := decode(t, find(t, build(t, "base"), "Role", "vm-runner")).(*rbacv1.Role)
	needed := needs(requests, c.ns)
	for _, r := range rights(role.Rules) {
		if !slices.ContainsFunc(needed, r.allows) {
			t.Errorf("nothing needs the right %s", r)
		}
	}
}

// ofRunner are the requests of a runner.
func ofRunner(r testserver.Request) bool { return r.Agent == apirunner.FieldManager }
