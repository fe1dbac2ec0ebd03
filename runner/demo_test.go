package runner_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// buildDemo builds the demo's guest, once; it is kept in .cache.
var buildDemo = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "run", "./tools/demo-guest")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return "../.cache/demo/guest.raw", nil
})

// demoGuest returns a copy of the demo's guest, a small Linux with a shell on its first serial port.
func demoGuest(t *testing.T) string {
	t.Helper()
	path, err := buildDemo()
	if err != nil && strings.Contains(err.Error(), "Debian packages are not available") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(t.TempDir(), "guest.raw"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}

const mib = 1 << 20

// linux is a VM whose guest is the demo's, with up to four CPUs and everything that can be changed while it runs.
func linux(t *testing.T, disk string) *runner.Config {
	t.Helper()
	c := loadConfig(t, "minimal")
	args := c.Boot.Args[:0]
	for _, a := range c.Boot.Args {
		switch {
		case a.Option == "m":
			a.Keys = map[string]any{"size": "256M", "maxmem": "1G", "slots": 1}
		case a.Option == "device":
			a.JSON = map[string]any{"driver": "isa-serial", "chardev": "serial0"}
		}
		args = append(args, a)
	}
	device := func(json map[string]any) { args = append(args, runner.Arg{Option: "device", JSON: json}) }
	args = append(args,
		runner.Arg{Option: "cpu", Value: "max"},
		runner.Arg{Option: "smp", Keys: map[string]any{"cpus": 1, "maxcpus": 4}},
		runner.Arg{Option: "object", JSON: map[string]any{"qom-type": "memory-backend-ram", "id": "vmem0", "size": 512 * mib, "reserve": false}},
		runner.Arg{Option: "netdev", JSON: map[string]any{"type": "user", "id": "net0"}},
	)
	device(map[string]any{"driver": "virtio-balloon-pci", "id": "balloon"})
	device(map[string]any{"driver": "virtio-mem-pci", "id": "vmem0", "memdev": "vmem0"})
	device(map[string]any{"driver": "virtio-net-pci", "id": "net0", "netdev": "net0"})
	device(map[string]any{"driver": "virtio-scsi-pci", "id": "scsi"})
	device(map[string]any{"driver": "scsi-cd", "id": "cd0", "bus": "scsi.0"})
	c.Boot.Args = args
	addDisk(c, disk)
	c.Live = runner.Live{PowerdownTimeout: 60, CurrentCPUs: 3}
	return c
}

// says waits until a shell command in the guest writes a line.
func (m *machine) says(command, want string) {
	m.t.Helper()
	m.typeIn(fmt.Sprintf("until [ \"$(%s)\" = '%s' ]; do usleep 20000; done; echo \"so\" 'it is'\n", command, want))
	if !m.console.waitFor("so it is", m.done) {
		m.t.Fatalf("guest: %s does not become %q", command, want)
	}
}

// A Linux guest sees each change.
func TestLinux(t *testing.T) {
	disk := demoGuest(t)
	m := boot(t, linux(t, disk))
	pid := m.waitFor("QEMU runs", func(s runner.Status) bool { return s.CPUs == 3 }).PID

	m.shows("cuvee-demo: ready")
	m.typeIn("ls /lib/modules; cat /proc/meminfo | head -1; ls /dev; nproc\n")
	m.says("nproc", "3")
	m.change(func(c *runner.Config) { c.Live.CurrentCPUs = 2 })
	m.waitFor("a CPU is released", func(s runner.Status) bool { return s.CPUs == 2 && len(s.Pending) == 0 })
	m.says("nproc", "2")
	_ = pid
	m.says("nproc", "2")
	t.Fail()
}
