package main

import (
	"crypto/md5"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// Without a cluster there is no limit of a Secret: user-data of several megabytes reaches the guest whole.
func TestRunLargeUserData(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("a line of a large file, ", 3<<20/24)
	h := newHome(t)
	run := h.start(t, "-f", h.write(t, `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: large}
spec:
  cloudInit: {userData: {runcmd: ["md5sum /mnt/cidata/user-data"], write_files: [{path: /large, content: "`+content+`"}]}}
  vm: {firmware: bios, maximumRam: 512Mi, display: {}, disks: [{volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}}]}
`), "--disk", "system="+demodisk.Copy(t))
	run.waitFor(t, "cuvee-demo: ready")
	paths, err := filepath.Glob(filepath.Join(h.runtime, "*", "config", "cloud-init", "user-data"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("user-data is at %v: %v", paths, err)
	}
	want := readFile(t, paths[0])
	if !strings.Contains(want, content) {
		t.Errorf("user-data of %d bytes has not the content", len(want))
	}
	if sum := fmt.Sprintf("%x  /mnt/cidata/user-data", md5.Sum([]byte(want))); !strings.Contains(run.out.String(), sum) {
		t.Errorf("the guest has not read %q:\n%.2000s", sum, run.out)
	}
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "asking the guest to power down")
}
