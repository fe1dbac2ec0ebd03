package runner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

const mib = 1 << 20

// linux is a VM whose guest is the demo's, with up to four CPUs and everything that can be changed while it runs.
func linux(t *testing.T, disk string) *runner.Config {
	t.Helper()
	c := loadConfig(t, "minimal")
	args := c.Boot.Args[:0]
	for _, a := range c.Boot.Args {
		switch {
		case a.Option == "m":
			a.Keys = map[string]any{"size": "384M", "maxmem": "1G", "slots": 1}
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

// A Linux guest sees each change, without a restart of its QEMU.
func TestLinux(t *testing.T) {
	disk := demodisk.Copy(t)
	m := boot(t, linux(t, disk))
	begin, _ := m.vm.Status()
	// Changes that come while the guest boots are not lost. (SeaBIOS would wait for ever for a CPU that is plugged in right when
	// it counts them.)
	m.shows("Cuvee demo guest")
	m.change(func(c *runner.Config) { c.Live.CurrentRAM, c.Live.CurrentCPUs = 256*mib, 4 })
	m.shows("cuvee-demo: ready")
	m.says("nproc", "4")
	m.waitFor("the balloon has its size", func(s runner.Status) bool { return s.RAM == 256*mib })
	m.says("awk '/MemTotal/ {print ($2 < 200000)}' /proc/meminfo", "1")

	m.change(func(c *runner.Config) {
		c.Live.CurrentRAM = 384 * mib
		c.Live.Memory = map[string]int64{"vmem0": 128 * mib}
		c.Live.Networks = map[string]runner.LiveNetwork{"net0": {Link: runner.LinkDown}}
		c.Live.Disks = map[string]runner.LiveDisk{"disk0": {Size: 100 * mib}}
	})
	m.waitFor("there is more memory", func(s runner.Status) bool { return s.RAM == (384+128)*mib && noPending(s) })
	m.says("awk '/MemTotal/ {print ($2 > 380000)}' /proc/meminfo", "1")
	m.says("cat /sys/class/net/eth0/carrier", "0")
	m.says("cat /sys/block/vda/size", fmt.Sprint(100*mib/512))

	// Without a size the disk follows its file. A network that is not spoken of is up.
	m.change(func(c *runner.Config) {
		c.Live.Networks = nil
		c.Live.Disks = map[string]runner.LiveDisk{"disk0": {}}
	})
	m.says("cat /sys/class/net/eth0/carrier", "1")
	if err := os.Truncate(disk, 120*mib); err != nil {
		t.Fatal(err)
	}
	m.says("cat /sys/block/vda/size", fmt.Sprint(120*mib/512))

	m.changesMedia(t.TempDir())

	// One reset for one wish, also if the config comes again.
	m.change(func(c *runner.Config) { c.Live.Reset = "once" })
	m.change(func(c *runner.Config) { c.Live.PowerdownTimeout++ })
	m.shows("cuvee-demo: ready")
	status, _ := m.vm.Status()
	if status.Resets != 1 || status.Reset != "once" || status.PID != begin.PID || status.State != runner.Booting {
		t.Errorf("status after a reset is %+v", status)
	}

	// The last thing that this VM does, see TestCPUsLess.
	m.setCPUs(3)
	m.waitFor("a CPU is gone", complies(3))
	m.says("nproc", "3")
}

// changesMedia changes the medium in a drive that the guest has mounted, and so locked.
func (m *machine) changesMedia(dir string) {
	m.t.Helper()
	var paths [2]string
	for i := range paths {
		paths[i] = filepath.Join(dir, fmt.Sprintf("%d.iso", i))
		// The shell reads it as it is, so no file system is needed.
		content := append([]byte(fmt.Sprintf("medium %d\n", i)), make([]byte, 1<<20)...)
		if err := os.WriteFile(paths[i], content, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	m.insert(paths[0])
	m.says("head -n 1 /dev/sr0", "medium 0")
	m.typeIn("exec 3</dev/sr0\n")
	m.until("the guest has locked the tray", func() bool { return m.drive().locked })
	m.insert(paths[1])
	m.waitFor("the change waits", func(s runner.Status) bool { return len(s.Pending) == 1 && s.Pending[0].Waiting })
	m.typeIn("exec 3<&-\n")
	m.waitFor("the change is done", noPending)
	m.says("head -n 1 /dev/sr0", "medium 1")

	// A medium may be on the web, and is read there.
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	m.t.Cleanup(web.Close)
	m.change(func(c *runner.Config) {
		file := map[string]any{"driver": "http", "url": web.URL + "/0.iso"}
		c.Live.CDROMs = map[string]map[string]any{"cd0": {"driver": "raw", "read-only": true, "file": file}}
	})
	m.says("head -n 1 /dev/sr0", "medium 0")
	m.insert("")
	m.until("the drive is empty", func() bool { return m.drive() == drive{} })
}
