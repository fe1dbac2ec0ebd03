//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
)

// troubles are what one needs to see why a script has failed, in its namespace and of the manager.
var troubles = [][]string{
	{"get", "vms,statefulsets,pods,services,pvc", "-o", "wide"},
	{"get", "vms", "-o", `jsonpath={range .items[*]}{.metadata.name}: {.status}{"\n"}{end}`},
	{"describe", "pods"},
	{"get", "events.events.k8s.io", "--sort-by=.metadata.creationTimestamp", "-o",
		`jsonpath={range .items[*]}{.metadata.creationTimestamp} {.regarding.kind}/{.regarding.name} {.reason}: {.note}{"\n"}{end}`},
	{"logs", "-l", "app.kubernetes.io/component=vm-runner", "--all-containers", "--prefix", "--tail=40"},
	{"logs", "-l", "app.kubernetes.io/component=vm-runner", "--all-containers", "--prefix", "--tail=20", "--previous"},
}

// trouble prints them, and what the guests wrote last.
func (k kube) trouble(name string) {
	var b strings.Builder
	show := func(what string, out string, err error) {
		if err != nil {
			out = err.Error()
		}
		if out = strings.TrimSpace(out); out != "" {
			fmt.Fprintf(&b, "---- %s: %s\n%s\n", name, what, out)
		}
	}
	for _, args := range troubles {
		out, err := k.kubectl(args...)
		show("kubectl "+strings.Join(args, " "), out, err)
	}
	vms, _ := k.kubectl("get", "vms", "-o", "jsonpath={.items[*].metadata.name}")
	for vm := range strings.FieldsSeq(vms) {
		out, err := k.cuvee("console", vm, "--log", "--tail", "3000")
		show("the console of "+vm, out, err)
	}
	manager := kube{kubeconfig: k.kubeconfig, namespace: "cuvee-system"}
	out, err := manager.kubectl("logs", "deployment/vm-operator", "--tail=40")
	show("the manager", out, err)
	told.Lock()
	defer told.Unlock()
	fmt.Fprint(os.Stdout, b.String())
}
