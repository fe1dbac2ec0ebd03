//go:build guest

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// TestGuestFormats boots the demo's guest from disks that are filled from a web server with each of the formats that there are, and from
// an image in a layout directory.
func TestGuestFormats(t *testing.T) {
	served := t.TempDir()
	web := httptest.NewServer(http.FileServer(http.Dir(served)))
	t.Cleanup(web.Close)
	disk := demodisk.Copy(t)
	convert := func(args ...string) []string {
		return append([]string{"qemu-img", "convert", "-q", "-f", "raw", "-O"}, args...)
	}
	compress := func(program, from, to string) []string {
		return []string{"sh", "-c", fmt.Sprintf("%s -c < %s > %s", program, from, to)}
	}
	file := func(name string) string { return filepath.Join(served, name) }
	for _, args := range [][]string{
		{"cp", "--sparse=always", disk, file("raw")},
		convert("qcow2", disk, file("qcow2")),
		convert("qcow2", "-c", disk, file("compressed-qcow2")),
		convert("qcow2", "-o", "compat=0.10", disk, file("qcow2-v2")),
		compress("gzip -1", disk, file("raw-gzip")),
		compress("xz -1", disk, file("raw-xz")),
		compress("zstd -q -1", disk, file("raw-zstd")),
		compress("zstd -q -1", file("qcow2"), file("qcow2-zstd")),
		{"cuvee", "image", "build", file("qcow2"), "-o", file("guest.tar")},
		{"mkdir", file("layout")},
		{"tar", "-C", file("layout"), "-xf", file("guest.tar")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	source := func(from string) string {
		return fmt.Sprintf("{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 128Mi}}}}, source: %s}", from)
	}
	disks := map[string]string{
		"Layout":     fmt.Sprintf("{image: {reference: %q}}", file("layout")),
		"FromLayout": source(fmt.Sprintf("{image: {reference: %q}}", file("layout"))),
	}
	for _, format := range []string{"raw", "qcow2", "compressed-qcow2", "qcow2-v2", "raw-gzip", "raw-xz", "raw-zstd", "qcow2-zstd"} {
		disks[format] = source(fmt.Sprintf("{url: %q}", web.URL+"/"+format))
	}
	for name, disk := range disks {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			vm := filepath.Join(h.dir, "vm.yaml")
			text := fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: formats}, spec: {vm: {firmware: bios, maximumRam: 512Mi, disks: [%s]}}}", disk)
			if err := os.WriteFile(vm, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			run := h.start(t, "-f", vm)
			run.waitFor(t, "cuvee-demo: ready")
			run.signal(t, syscall.SIGTERM)
			run.ends(t, 0, "")
		})
	}
}
