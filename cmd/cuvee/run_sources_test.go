package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// A guest boots from a throw-away disk in an image, and has another disk that was filled with a file once. Neither a registry nor root is needed.
func TestRunFromSources(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	disk := demodisk.Copy(t)
	file := func(name string) string { return filepath.Join(h.dir, name) }
	for _, args := range [][]string{
		{"qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", disk, file("guest.qcow2")},
		{"cuvee", "image", "build", file("guest.qcow2"), "-o", file("guest.tar")},
		{"qemu-img", "convert", "-q", "-c", "-f", "raw", "-O", "qcow2", disk, file("data.qcow2")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	vm := fmt.Sprintf(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: sources}
spec:
  vm:
    firmware: bios
    maximumRam: 512Mi
    display: {}
    disks:
    - image: {reference: %q}
      bootindex: 0
    - volumeClaimTemplate: {metadata: {name: data}, spec: {resources: {requests: {storage: 96Mi}}}}
      source: {url: "file://%s"}
`, file("guest.tar"), file("data.qcow2"))
	if err := os.WriteFile(file("vm.yaml"), []byte(vm), 0o600); err != nil {
		t.Fatal(err)
	}
	run := h.start(t, "-v", "-f", file("vm.yaml"))
	run.waitFor(t, "cuvee-demo: ready")
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "disk data-disk has been filled with file://"+file("data.qcow2"))

	data := filepath.Join(h.data, "cuvee", "default", "sources")
	want, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(data, "disks", "data-disk", "disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 96<<20 || !bytes.HasPrefix(got, want) {
		t.Errorf("the filled disk has %d bytes, and is not what it was filled with", len(got))
	}
	if left := entries(t, filepath.Join(data, "overlays")); len(left) != 0 {
		t.Errorf("left of the throw-away disk: %v", left)
	}

	// The disk that is filled does not need its file any more; the throw-away one needs its image each time.
	for _, name := range []string{"data.qcow2", "guest.tar"} {
		if err := os.Remove(file(name)); err != nil {
			t.Fatal(err)
		}
	}
	again := h.start(t, "-f", file("vm.yaml"))
	again.ends(t, 1, "guest.tar")
	if strings.Contains(again.out.String(), "data.qcow2") {
		t.Errorf("the file of the filled disk is missed:\n%s", again.out)
	}
}

// The registry of an image is asked as its pullPolicy says.
func TestRunPullPolicy(t *testing.T) {
	t.Parallel()
	// Nothing listens there.
	const image = `{reference: "127.0.0.1:1/debian:13", pullPolicy: Never}`
	for name, disk := range map[string]string{
		"ThrowAway": `{image: ` + image + `}`,
		"Source":    `{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 64Mi}}}}, source: {image: ` + image + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			vm := `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: policy}, spec: {vm: {maximumRam: 256Mi, display: {}, disks: [` + disk + `]}}}`
			h.start(t, "-f", h.write(t, vm)).ends(t, 1, "image 127.0.0.1:1/debian:13: not found here, and the policy is Never")
		})
	}
}
