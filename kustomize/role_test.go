package kustomize_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// everything is a site that makes further objects for VMs with a label, which goes with them: of each kind that the base has rights for.
const everything = `package vm

import "encoding/json"

settings: loadBalancerService: enabled: true

// A certificate ends so soon that the test sees the next one.
generate: consoleTLS?: {validFor: "25s", renewBefore: "20s"}

if input.metadata.labels.more != _|_ {
	objects: {
		for k, o in {
			moreConfig: {apiVersion: "v1", kind: "ConfigMap", data: text: json.Marshal("more")}
			moreSecret: {apiVersion: "v1", kind: "Secret"}
			moreService: {apiVersion: "v1", kind: "Service", spec: ports: [{port: 1}]}
			moreSet: {apiVersion: "apps/v1", kind: "StatefulSet", spec: {
				replicas: 0
				selector: matchLabels: more: "more"
				template: {metadata: labels: more: "more", spec: containers: [{name: "c", image: "i"}]}
			}}
		} {(k): o & {metadata: _metadata & {name: "\(_name)-more"}}}
	}
}
`

// made are the objects of the VM web that tests change by hand, of each kind one.
var made = []struct{ apiVersion, kind, name string }{
	{"apps/v1", "StatefulSet", "web"}, {"v1", "ConfigMap", "web"}, {"v1", "Secret", "web-cloud-init"}, {"v1", "Service", "web"},
	{"v1", "PersistentVolumeClaim", "system-disk-web-0"},
}

// TestRole has a manager with the rights of the base, and no others, do all that it does. It asks for nothing that it may not do, and
// there is no right that nothing needs.
func TestRole(t *testing.T) {
	c := admin(t)
	const ns = "role"
	objects := build(t, "base")
	c.must(unstructured.SetNestedField(find(t, objects, "ConfigMap", "vm-operator").Object, everything, "data", "site.cue"))
	m := c.install(ns, objects)
	c.ready(m)
	c.live(ns)
	// Watches are in the audit log when they have ended.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.must(m.Stop(ctx))
	c.noForbidden(m)

	role := decode(t, find(t, objects, "Role", "vm-operator")).(*rbacv1.Role)
	needed := needs(c.requests(m), ns)
	for _, r := range rights(role.Rules) {
		if !slices.ContainsFunc(needed, func(n right) bool { return r.allows(n) && !othersAllow(role.Rules, r, n) }) {
			t.Errorf("nothing needs the right %s", r)
		}
	}
}

// right is a verb for a resource, and maybe for one name only.
type right struct{ verb, group, resource, name string }

func (r right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s.%s %s", r.verb, r.resource, r.group, r.name))
}

func (r right) allows(n right) bool {
	return r.verb == n.verb && r.group == n.group && r.resource == n.resource && (r.name == "" || r.name == n.name)
}

// rights are the rules one by one.
func rights(rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						out = append(out, right{verb, group, resource, name})
					}
				}
			}
		}
	}
	return out
}

// othersAllow says that a need is met without one of the rights.
func othersAllow(rules []rbacv1.PolicyRule, without, n right) bool {
	return slices.ContainsFunc(rights(rules), func(r right) bool { return r != without && r.allows(n) })
}

// needs are the rights that requests took.
func needs(requests []testserver.Request, namespace string) []right {
	found := map[right]bool{}
	for _, r := range requests {
		if r.Namespace != namespace {
			continue
		}
		n := right{r.Verb, r.Group, r.Resource, r.Name}
		if r.Subresource != "" {
			n.resource += "/" + r.Subresource
		}
		found[n] = true
		// An API server that cannot send a list as a watch is asked for the list first.
		if r.Verb == "watch" {
			n.verb = "list"
			found[n] = true
			continue
		}
		// An apply that makes an object takes the right to create it, too. It names the VirtualMachine as its owner, which
		// takes a right on that.
		if r.Verb == "patch" && r.Code == 201 {
			n.verb = "create"
			found[n] = true
			found[right{"update", "vmoperator.jdrupes.org", "vms/finalizers", ""}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// live takes a VM through its life, and changes what it has become in every way that the manager sets right.
func (c *cluster) live(ns string) {
	c.Helper()
	c.vm(ns, "web", specWithDisk())
	c.rendered(ns, "web")
	c.T.Log("a change by hand is taken back, also one that cannot be merged")
	for _, o := range made {
		c.relabel(ns, o.apiVersion, o.kind, o.name, "kubectl-edit")
	}
	c.change(ns, "apps/v1", "StatefulSet", "web", `[{"op":"add","path":"/spec/template/spec/volumes/0/hostPath","value":{"path":"/x"}}, {"op":"remove","path":"/spec/template/spec/volumes/0/projected"}]`,
		func(o *unstructured.Unstructured) bool {
			return !strings.Contains(marshal(o.Object["spec"]), "hostPath")
		})
	c.change(ns, "v1", "ConfigMap", "web", `[{"op":"move","from":"/data/config.json","path":"/data/other"},{"op":"add","path":"/binaryData","value":{"config.json":"e30="}}]`,
		func(o *unstructured.Unstructured) bool {
			return at(o, "data", "config.json") != nil && at(o, "binaryData", "config.json") == nil
		})
	c.change(ns, "v1", "Service", "web", `[{"op":"replace","path":"/spec/ports/0/port","value":1}]`,
		func(o *unstructured.Unstructured) bool {
			return !strings.Contains(marshal(at(o, "spec", "ports")), `"port":1,`)
		})
	c.T.Log("what kubectl apply has made is taken over")
	for _, o := range made {
		c.relabel(ns, o.apiVersion, o.kind, o.name, "kubectl-client-side-apply")
	}
	c.T.Log("a pod is told of a changed configuration")
	c.pod(ns, "web-0")
	c.eventually(func() string {
		if at(c.get("v1", "Pod", ns, "web-0"), "metadata", "annotations", "cuvee-vm.github.io/config") == nil {
			return "the pod has no annotation"
		}
		return ""
	})
	c.restart(ns)
	c.secrets(ns)
	c.T.Log("a site's objects come and go")
	for _, label := range []string{`"yes"`, "null"} {
		c.merge(ns, "web", `{"metadata":{"labels":{"more":`+label+`}}}`)
		c.eventually(func() string {
			for _, o := range made[:4] {
				if there := c.get(o.apiVersion, o.kind, ns, "web-more") != nil; there != (label != "null") {
					return fmt.Sprintf("%s web-more is there: %t", o.kind, there)
				}
			}
			return ""
		})
	}
	c.T.Log("it is deleted, and its disks are not")
	c.must(c.core.CoreV1().Pods(ns).Delete(c.Context(), "web-0", metav1.DeleteOptions{}))
	c.must(c.api.Delete(c.Context(), c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", ns, "web")))
	c.eventually(func() string {
		if c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", ns, "web") != nil {
			return "web is there"
		}
		return ""
	})
	if c.get("v1", "PersistentVolumeClaim", ns, "system-disk-web-0") == nil {
		c.Error("the disk is gone")
	}
}

// restart restarts the VM web as a user does, and waits for that.
func (c *cluster) restart(ns string) {
	c.Helper()
	c.T.Log("a VM is restarted")
	replicas := func(want int64) {
		c.Helper()
		c.eventually(func() string {
			if is := at(c.get("apps/v1", "StatefulSet", ns, "web"), "spec", "replicas"); is != want {
				return fmt.Sprintf("the StatefulSet has %v replicas, want %d", is, want)
			}
			return ""
		})
	}
	replicas(1)
	c.merge(ns, "web", `{"metadata":{"annotations":{"cuvee-vm.github.io/restart":"now"}}}`)
	replicas(0)
	c.must(c.core.CoreV1().Pods(ns).Delete(c.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	replicas(1)
	c.eventually(func() string {
		if done := at(c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", ns, "web"), "status", "handled", "restart"); done != "now" {
			return fmt.Sprintf("the restart that is done is %v", done)
		}
		return ""
	})
	c.pod(ns, "web-0")
}

// secrets has the manager look after those of the VM web: the user's password, an incomplete token, a certificate that ends.
func (c *cluster) secrets(ns string) {
	c.Helper()
	c.T.Log("the display has the user's Secret, as long as there is one")
	mine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "mine", "namespace": ns, "labels": map[string]any{
			"app.kubernetes.io/name": "vm-runner", "app.kubernetes.io/component": "display-secret", "app.kubernetes.io/instance": "web",
		}},
		"data": map[string]any{"display-password": "bWluZQ=="},
	}}
	uses := func(secret string) {
		c.Helper()
		c.eventually(func() string {
			if set := marshal(at(c.get("apps/v1", "StatefulSet", ns, "web"), "spec", "template", "spec", "volumes")); !strings.Contains(set, `"name":"`+secret+`"`) {
				return "the pod does not get the Secret " + secret + ": " + set
			}
			return ""
		})
	}
	uses("web-display-secret")
	c.must(c.api.Delete(c.Context(), c.get("v1", "Secret", ns, "web-display-secret")))
	c.must(c.api.Create(c.Context(), mine))
	uses("mine")
	c.must(c.api.Delete(c.Context(), mine))
	uses("web-display-secret")
	c.T.Log("a token that a dry run has left out is made")
	token := func() any { return at(c.get("v1", "Secret", ns, "web-console-token"), "data", "token") }
	o := c.get("v1", "Secret", ns, "web-console-token")
	c.must(c.api.Patch(c.Context(), o, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"cuvee-vm.github.io/placeholder":"token"}},"data":{"token":""}}`))))
	c.eventually(func() string {
		if text, ok := token().(string); !ok || text == "" {
			return "there is no token"
		}
		return ""
	})
	c.T.Log("a certificate is renewed")
	certificate := func() any { return at(c.get("v1", "Secret", ns, "web-console-tls"), "data", "tls.crt") }
	first := certificate()
	c.eventually(func() string {
		if certificate() == first {
			return "the certificate is the first one"
		}
		return ""
	})
}

func marshal(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// merge changes a VirtualMachine.
func (c *cluster) merge(ns, name, change string) {
	c.Helper()
	o := c.get("vmoperator.jdrupes.org/v1", "VirtualMachine", ns, name)
	c.must(c.api.Patch(c.Context(), o, client.RawPatch(types.MergePatchType, []byte(change))))
}

// relabel changes a label that the templates set, as a manager of fields, and waits until it is what it was.
func (c *cluster) relabel(ns, apiVersion, kind, name, manager string) {
	c.Helper()
	c.relabelAs(ns, "app.kubernetes.io/name", apiVersion, kind, name, manager)
}

// relabelAs is relabel for another label.
func (c *cluster) relabelAs(ns, label, apiVersion, kind, name, manager string) {
	c.Helper()
	c.eventually(func() string {
		if c.get(apiVersion, kind, ns, name) == nil {
			return fmt.Sprintf("there is no %s %s", kind, name)
		}
		return ""
	})
	o := c.get(apiVersion, kind, ns, name)
	was := o.GetLabels()[label]
	change := fmt.Sprintf(`{"metadata":{"labels":{%q:"by-hand"},"annotations":{%q:"{}"}}}`, label, corev1.LastAppliedConfigAnnotation)
	c.must(c.api.Patch(c.Context(), o, client.RawPatch(types.MergePatchType, []byte(change)), client.FieldOwner(manager)))
	c.eventually(func() string {
		if now := c.get(apiVersion, kind, ns, name).GetLabels()[label]; now != was {
			return fmt.Sprintf("the label of %s %s is %q, want %q", kind, name, now, was)
		}
		return ""
	})
}

// change changes an object by hand, and waits until it is good again.
func (c *cluster) change(ns, apiVersion, kind, name, patch string, good func(*unstructured.Unstructured) bool) {
	c.Helper()
	c.must(c.api.Patch(c.Context(), c.get(apiVersion, kind, ns, name), client.RawPatch(types.JSONPatchType, []byte(patch)), client.FieldOwner("kubectl-edit")))
	c.eventually(func() string {
		if o := c.get(apiVersion, kind, ns, name); o == nil || !good(o) {
			return fmt.Sprintf("%s %s is not set right: %s", kind, name, marshal(o))
		}
		return ""
	})
}

// Without a rule of the Role, something that the manager does is forbidden: that is what TestRole concludes from the audit log, seen here
// for two of them.
func TestRoleLacks(t *testing.T) {
	cases := map[string]struct{ resource, denied string }{
		"Services": {"services", "services"},
		// It is asked for when an object is made that has an owner.
		"Finalizers": {"vms/finalizers", "statefulsets"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := admin(t)
			ns := "lacks-" + strings.ToLower(name)
			objects := build(t, "base")
			c.must(unstructured.SetNestedField(find(t, objects, "ConfigMap", "vm-operator").Object, everything, "data", "site.cue"))
			role := find(t, objects, "Role", "vm-operator")
			rules, _ := at(role, "rules").([]any)
			for _, rule := range rules {
				r := rule.(map[string]any)
				r["resources"] = slices.DeleteFunc(r["resources"].([]any), func(v any) bool { return v == tc.resource })
			}
			role.Object["rules"] = slices.DeleteFunc(rules, func(rule any) bool { return len(rule.(map[string]any)["resources"].([]any)) == 0 })
			m := c.install(ns, objects)
			c.vm(ns, "web", spec())
			c.eventually(func() string {
				requests := c.requests(m)
				if !slices.ContainsFunc(requests, func(r testserver.Request) bool { return r.Resource == tc.denied && r.Code == http.StatusForbidden }) {
					return fmt.Sprintf("%s are not forbidden: %v", tc.denied, testserver.Count(requests))
				}
				return ""
			})
		})
	}
}

// The Role has the kinds that the templates name: those that they make are applied, all are watched.
func TestRoleFollowsTemplates(t *testing.T) {
	p, err := controller.Load(cuvee.Files, nil, "", "vm")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	add := func(verb, apiVersion, kind string) {
		group, _, ok := strings.Cut(apiVersion, "/")
		if !ok {
			group = ""
		}
		resource := strings.ToLower(kind) + "s"
		if kind == p.Set.Kind.Kind {
			resource = p.Set.Kind.Plural
		}
		want[right{verb, group, resource, ""}.String()] = true
	}
	for _, m := range p.Set.Makes {
		add("patch", m.APIVersion, m.Kind)
		add("watch", m.APIVersion, m.Kind)
	}
	for _, l := range p.Set.Watches {
		add("watch", l.APIVersion, l.Kind)
	}
	if len(want) < 10 {
		t.Fatalf("the templates name %v only", want)
	}
	role := decode(t, find(t, build(t, "base"), "Role", "vm-operator")).(*rbacv1.Role)
	for _, r := range rights(role.Rules) {
		delete(want, r.String())
	}
	if len(want) > 0 {
		t.Errorf("the Role lacks %v", slices.Sorted(maps.Keys(want)))
	}
}

// The table of rights in docs/security.md is that of the Role.
func TestDocumentedRights(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "| group | resources | verbs |\n|---|---|---|\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(row, "`", ""), "|")
		documented = append(documented, strings.TrimSpace(cells[1])+": "+strings.TrimSpace(cells[2])+": "+strings.TrimSpace(cells[3]))
	}
	role := decode(t, find(t, build(t, "base"), "Role", "vm-operator")).(*rbacv1.Role)
	var want []string
	for _, rule := range role.Rules {
		group, resources := rule.APIGroups[0], strings.Join(rule.Resources, ", ")
		if group == "" {
			group = "core"
		}
		if len(rule.ResourceNames) > 0 {
			resources += " named " + strings.Join(rule.ResourceNames, ", ")
		}
		want = append(want, group+": "+resources+": "+strings.Join(rule.Verbs, ", "))
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("rights (-Role +documented):\n%s", diff)
	}
}
