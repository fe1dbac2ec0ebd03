package main

import (
	"testing"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// The guest finds a disk by the name that the VirtualMachine gives it: udev makes /dev/disk/by-id/virtio-<serial> of the serial number.
func TestRunNamesDisks(t *testing.T) {
	t.Parallel()
	const vm = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: names}
spec:
  cloudInit: {userData: {runcmd: ['echo "first disk is $(cat /sys/block/vda/serial)."', poweroff]}}
  vm: {firmware: bios, maximumRam: 512Mi, display: {}, disks: [{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}}]}
`
	h := newHome(t)
	run := h.start(t, "-f", h.write(t, vm), "--disk", "system="+demodisk.Copy(t))
	run.ends(t, 0, "first disk is system-disk.")
}
