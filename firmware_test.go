package cuvee_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// vmOperatorFirmware has the files that VM-Operator looks for below /usr/share, in its order. Its variables for secure-4m on Fedora are
// the file of the code, a mistake that is not among what has to be compatible.
var vmOperatorFirmware = map[string][][2]string{
	"uefi": {
		{"edk2/ovmf/OVMF_CODE.fd", "edk2/ovmf/OVMF_VARS.fd"},
		{"edk2/x64/OVMF_CODE.fd", "edk2/x64/OVMF_VARS.fd"},
		{"OVMF/OVMF_CODE.fd", "OVMF/OVMF_VARS.fd"},
		{"edk2/ovmf-4m/OVMF_CODE.fd", "edk2/ovmf-4m/OVMF_VARS.fd"},
		{"edk2/x64/OVMF_CODE.4m.fd", "edk2/x64/OVMF_VARS.4m.fd"},
	},
	"uefi-4m": {
		{"edk2/ovmf-4m/OVMF_CODE.fd", "edk2/ovmf-4m/OVMF_VARS.fd"},
		{"edk2/x64/OVMF_CODE.4m.fd", "edk2/x64/OVMF_VARS.4m.fd"},
	},
	"secure": {
		{"edk2/ovmf/OVMF_CODE.secboot.fd", "edk2/ovmf/OVMF_VARS.secboot.fd"},
		{"edk2/x64/OVMF_CODE.secboot.fd", "edk2/x64/OVMF_VARS.fd"},
	},
	"secure-4m": {
		{"edk2/ovmf-4m/OVMF_CODE.secboot.fd", "edk2/ovmf-4m/OVMF_VARS.secboot.fd"},
		{"edk2/x64/OVMF_CODE.secboot.4m.fd", "edk2/x64/OVMF_VARS.4m.fd"},
	},
}

// A VM finds its firmware on each system that VM-Operator finds it on, and where there are several, the same one before the other.
func TestFirmwareFilesOfVMOperator(t *testing.T) {
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: "templates/vm"})
	if err != nil {
		t.Fatal(err)
	}
	for kind, pairs := range vmOperatorFirmware {
		t.Run(kind, func(t *testing.T) {
			theirs := map[string]bool{}
			var want, got []string
			for _, p := range pairs {
				name := fmt.Sprintf("/usr/share/%s with /usr/share/%s", p[0], p[1])
				theirs[name] = true
				want = append(want, name)
			}
			for _, a := range firmwareAlternatives(t, set, kind) {
				if name := a["code"] + " with " + a["vars"]; theirs[name] {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-VM-Operator +templates):\n%s", diff)
			}
		})
	}
}

// firmwareAlternatives are where the runner looks for the firmware of a VM.
func firmwareAlternatives(t *testing.T, set *render.Set, kind string) []map[string]string {
	t.Helper()
	docs, err := render.Decode("vm.yaml", fmt.Appendf(nil, `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: vm, namespace: default}
spec: {vm: {firmware: %s, disks: []}}
`, kind))
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.Render(render.Input{Document: docs[0]})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Objects {
		var m struct{ Data map[string]string }
		if o.Key != "configMap" || json.Unmarshal(o.JSON, &m) != nil {
			continue
		}
		var config struct {
			Resolve map[string]struct{ Alternatives []map[string]string }
		}
		if err := json.Unmarshal([]byte(m.Data["config.json"]), &config); err != nil {
			t.Fatal(err)
		}
		return config.Resolve["firmware"].Alternatives
	}
	t.Fatal("the VM has no config")
	return nil
}
