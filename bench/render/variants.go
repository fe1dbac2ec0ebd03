package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cuvee-vm/cuvee/render"
)

// variants makes ever new VMs of one: of the same shape, with other names and values.
type variants struct {
	object map[string]any
	n      int64
}

func readVariants(file string) (*variants, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	docs, err := render.Decode(file, data)
	if err != nil {
		return nil, err
	}
	return &variants{object: docs[0].Object}, nil
}

// next is a VM with another name, other identities, sizes, addresses, and other cloud-init data.
func (v *variants) next() map[string]any {
	v.n++
	object := runtime.DeepCopyJSON(v.object)
	name := fmt.Sprintf("vm-%d", v.n)
	metadata := at(object, "metadata")
	metadata["name"] = name
	metadata["uid"] = fmt.Sprintf("5d6d3c1e-2b9f-4a43-9d0e-%012x", v.n)
	v.vary(at(object, "spec", "vm"))
	if data := at(object, "spec", "cloudInit"); data != nil {
		at(data, "metaData")["local-hostname"] = name
		user := at(data, "userData")
		user["runcmd"] = append(list(user, "runcmd"), fmt.Sprintf("echo %d > /etc/number", v.n))
	}
	return object
}

func (v *variants) vary(vm map[string]any) {
	if _, ok := vm["machineUuid"]; ok {
		vm["machineUuid"] = fmt.Sprintf("00000000-0000-4000-8000-%012x", v.n)
	}
	if _, ok := vm["maximumRam"]; ok {
		vm["maximumRam"] = fmt.Sprintf("%dMi", 8192+v.n)
		vm["currentRam"] = fmt.Sprintf("%dMi", 4096+v.n)
		vm["currentCpus"] = 1 + v.n%8
	}
	for _, n := range list(vm, "networks") {
		if tap := at(n, "tap"); tap != nil {
			tap["mac"] = fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", byte(v.n>>24), byte(v.n>>16), byte(v.n>>8), byte(v.n))
		}
	}
	for i, d := range list(vm, "disks") {
		if requests := at(d, "volumeClaimTemplate", "spec", "resources", "requests"); requests != nil {
			requests["storage"] = fmt.Sprintf("%dMi", 10240+100*int64(i)+v.n)
		}
		if cdrom := at(d, "cdrom"); cdrom != nil {
			cdrom["image"] = fmt.Sprintf("install-%d.iso", v.n)
		}
	}
}

// at is the object at a path, nil if there is none.
func at(v any, path ...string) map[string]any {
	object, _ := v.(map[string]any)
	for _, p := range path {
		object, _ = object[p].(map[string]any)
	}
	return object
}

func list(object map[string]any, key string) []any {
	l, _ := object[key].([]any)
	return l
}
