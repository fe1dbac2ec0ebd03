package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// ram is that of the guests that stay in their firmware, in bytes.
const ram = 64 << 20

var (
	vmResource  = schema.GroupVersionResource{Group: "vmoperator.jdrupes.org", Version: "v1", Resource: "vms"}
	podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// resources are those of the kinds that are made here.
var resources = map[string]schema.GroupVersionResource{
	"VirtualMachine":        vmResource,
	"StatefulSet":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"ConfigMap":             {Version: "v1", Resource: "configmaps"},
	"Secret":                {Version: "v1", Resource: "secrets"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"PersistentVolume":      {Version: "v1", Resource: "persistentvolumes"},
}

func (b *bench) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	r := b.api.Resource(resources[u.GetKind()])
	if u.GetKind() == "PersistentVolume" {
		return r
	}
	return r.Namespace(namespace)
}

// vm is a VM that finds nothing to boot.
func (b *bench) vm(name string) map[string]any {
	return map[string]any{
		"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name, "namespace": namespace, "annotations": map[string]any{"cuvee.test/accelerator": b.accelerator}},
		"spec": map[string]any{
			"resources": map[string]any{"requests": map[string]any{"cpu": b.cpu, "memory": "1Mi"}},
			"vm": map[string]any{
				"state": "Running", "firmware": "bios", "maximumRam": fmt.Sprint(ram),
				// Its firmware would not hear that it shall power down.
				"powerdownTimeout": 0,
				"networks":         []any{},
				"disks": []any{map[string]any{"volumeClaimTemplate": map[string]any{
					"metadata": map[string]any{"name": "system"},
					"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Mi"}}},
				}}},
			},
		},
	}
}

// linux is a VM with the disk of tools/demo-guest, which starts the agent that is on the other disk.
func linux(name string) map[string]any {
	image := func(name string) any {
		return map[string]any{"image": map[string]any{"reference": "cuvee.test/" + name + ":e2e", "pullPolicy": "Never"}}
	}
	return map[string]any{
		"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"cloudInit": map[string]any{"userData": map[string]any{"runcmd": []any{
				"cd / && cpio -idu < /dev/vdb",
				"for p in /sys/class/virtio-ports/*; do grep -qx org.qemu.guest_agent.0 $p/name && agent=/dev/$(basename $p); done",
				"qemu-ga -d -m virtio-serial -p $agent -t /run -f /run/qga.pid",
			}}},
			"resources": map[string]any{"requests": map[string]any{"cpu": "1m", "memory": "1Mi"}},
			"vm": map[string]any{
				"state": "Running", "firmware": "uefi", "maximumRam": "256Mi", "networks": []any{}, "powerdownTimeout": 0,
				"disks": []any{image("demo-disk"), image("agent-disk")},
			},
		},
	}
}

// makeVolumes makes a volume for each claim: a directory that is the claim's before there is one.
func (b *bench) makeVolumes(ctx context.Context, claims ...string) error {
	for _, claim := range claims {
		dir := filepath.Join(b.volumes, claim)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		err := b.create(ctx, map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": "bench-" + claim},
			"spec": map[string]any{
				"capacity": map[string]any{"storage": "16Mi"}, "accessModes": []any{"ReadWriteOnce"}, "storageClassName": "local-path",
				"persistentVolumeReclaimPolicy": "Retain",
				"claimRef":                      map[string]any{"namespace": namespace, "name": claim},
				"local":                         map[string]any{"path": dir},
				"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
					map[string]any{"key": "kubernetes.io/os", "operator": "In", "values": []any{"linux"}},
				}}}}},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// claims are those of a VM.
func claims(name string) []string {
	return []string{"runner-data-" + name + "-0", "system-disk-" + name + "-0"}
}

// pattern is what a VM has become, in the order of creation, as JSON: its objects without what the API server has added.
func (b *bench) pattern(ctx context.Context, name string) (string, error) {
	var out []any
	for _, kind := range []string{"PersistentVolumeClaim", "ConfigMap", "Secret", "StatefulSet"} {
		list, err := b.api.Resource(resources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + name})
		if err != nil {
			return "", err
		}
		if len(list.Items) == 0 {
			return "", fmt.Errorf("the VM %s has no %s", name, kind)
		}
		for i := range list.Items {
			out = append(out, copyOf(&list.Items[i], kind))
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// copyOf is an object as somebody would create it; a StatefulSet's pod does nothing.
func copyOf(u *unstructured.Unstructured, kind string) map[string]any {
	out := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": kind, "metadata": map[string]any{"name": u.GetName(), "namespace": namespace}}
	for key, value := range u.Object {
		if key != "metadata" && key != "status" && key != "kind" {
			out[key] = value
		}
	}
	unstructured.RemoveNestedField(out, "spec", "volumeName")
	if kind != "StatefulSet" {
		return out
	}
	template := []string{"spec", "template", "spec"}
	containers, _, _ := unstructured.NestedSlice(out, append(template, "containers")...)
	runner, _ := containers[0].(map[string]any)
	container := map[string]any{"name": "pause", "image": "cuvee.test/pause:1", "imagePullPolicy": "Never"}
	for _, key := range []string{"volumeMounts", "securityContext", "resources"} {
		container[key] = runner[key]
	}
	_ = unstructured.SetNestedSlice(out, []any{container}, append(template, "containers")...)
	_ = unstructured.SetNestedField(out, int64(0), append(template, "terminationGracePeriodSeconds")...)
	return out
}

// pod is what a VM of the name from has become, for a pod of another name.
func pod(pattern, from, name string) ([]map[string]any, error) {
	var out []map[string]any
	err := json.Unmarshal([]byte(strings.ReplaceAll(pattern, from, name)), &out)
	return out, err
}
