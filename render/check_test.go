package render_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

func TestFaults(t *testing.T) {
	set := load(t, render.Source{})
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"Everything": {
			"all faults are found in one run, each at its place",
			`apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: Web}
spec:
  guestShutdownStop: true
  vm:
    state: Started
    maximumCpus: 0
    currentRam: 4Gi
    maximumRam: 2Gi
    networks: [{user: {}}, {}]
    disks:
    - cdrom: {}
    - cdrom: {image: x}
      bootindex: "1"
    display: {spice: {port: 70000}}
`,
			[]string{
				`vm.yaml:3:18: metadata.name: must consist of lower case letters, digits and -, and begin and end with a letter or digit`,
				`vm.yaml:5:22: spec.guestShutdownStop: unknown field, did you mean guestShutdownStops?`,
				`vm.yaml:7:12: spec.vm.state: "Started" is not valid, want "Running" or "Stopped"`,
				`vm.yaml:8:18: spec.vm.maximumCpus: 0 is not valid, want a whole number from 1 to 255`,
				`vm.yaml:9:17: spec.vm.currentRam: 4Gi is more than maximumRam, 2Gi`,
				`vm.yaml:11:28: spec.vm.networks[1]: give exactly one of tap and user`,
				`vm.yaml:13:7: spec.vm.disks[0].cdrom.image: is missing, want text without control characters`,
				`vm.yaml:15:18: spec.vm.disks[1].bootindex: "1" is not valid, want a whole number from 0 to 2147483647`,
				`vm.yaml:16:29: spec.vm.display.spice.port: 70000 is not valid, want a whole number from 1 to 65535`,
			},
		},
		"WrongShape": {
			"a text where an object belongs, and no spec at all",
			"{apiVersion: v1, kind: VirtualMachine, metadata: x}",
			[]string{
				`vm.yaml:1:1: spec: is missing, want an object`,
				`vm.yaml:1:14: apiVersion: "v1" is not valid, want "vmoperator.jdrupes.org/v1"`,
				`vm.yaml:1:50: metadata: "x" is not valid, want an object`,
			},
		},
		"TemplateFault": {
			"what only the templates know is reported in the same form",
			"{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: a}, spec: {vm: {disks: [{cdrom: {image: ../x}}]}}}",
			[]string{`vm.yaml:1:120: spec.vm.disks[0].cdrom.image: "../x" is not in the image repository, /var/local/vmop-image-repository`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := set.Render(render.Input{Document: document(t, tc.text)})
			var faults render.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("%s: error %v, want faults", tc.reason, err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
