package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	kjson "sigs.k8s.io/json"

	"github.com/cuvee-vm/cuvee/runner"
)

// QEMU starts with each VM of the corpus, in its full sandbox, and everything that is set up before its guest runs works:
// the guest gets all its CPUs, media and passwords. Each VM has a network of its own, where its ports and bridges are.
func TestQEMUAcceptsCorpus(t *testing.T) {
	requireQEMU(t)
	for name, s := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range neededBy(name) {
				if _, err := os.Stat(tool.path); err != nil {
					t.Skipf("no %s (Debian: %s): %v", tool.what, tool.pkg, err)
				}
			}
			accepts(t, place(t, s))
		})
	}
}

// So it does with what sites may set of its devices.
func TestQEMUAcceptsSettings(t *testing.T) {
	requireQEMU(t)
	cases := map[string]struct {
		reason string
		sample string
		site   string
		want   []string
	}{
		"NoThreads": {
			reason: "Disks can do without threads of their own.",
			sample: "disks", site: `{"disk": {"ioThreads": 0}}`,
		},
		"OneThread": {
			reason: "One thread can serve all disks that a VM may have.",
			sample: "most-disks", site: `{"disk": {"ioThreads": 1}}`, want: []string{`"iothread":"io0"`},
		},
		"MoreDisksThanThreads": {
			reason: "Disks share threads in turn.",
			sample: "most-disks", site: `{"disk": {"ioThreads": 4}}`, want: []string{`"iothread":"io0"`, `"iothread":"io3"`},
		},
		"MoreThreadsThanDisks": {
			reason: "There are no threads without a disk.",
			sample: "disks-filesystem", site: `{"disk": {"ioThreads": 16}}`, want: []string{`"iothread":"io2"`},
		},
		"ErrorsReported": {
			reason: "The guest can be the one to deal with a disk that fails.",
			sample: "disks", site: `{"disk": {"onError": "report"}}`, want: []string{`"werror":"report"`},
		},
		"MemoryHotplug": {
			reason: "RAM comes through a device, of which the guest has a part.",
			sample: "ram", site: `{"memory": {"hotplug": true, "bootMiB": 128}}`, want: []string{"virtio-mem-pci"},
		},
		"MemoryHotplugLarge": {
			reason: "Much can be added to little.",
			sample: "ram-large", site: `{"memory": {"hotplug": true, "bootMiB": 128}}`, want: []string{"virtio-mem-pci"},
		},
		"MemoryHotplugOdd": {
			reason: "What is not a whole number of the device's blocks is rounded.",
			sample: "ram", site: `{"memory": {"hotplug": true, "bootMiB": 129}}`, want: []string{"virtio-mem-pci"},
		},
		"MemoryHotplugNoPorts": {
			reason: "Where there are no ports for devices that come later, the device has a place all the same.",
			sample: "ram", site: `{"memory": {"hotplug": true, "bootMiB": 128}, "qemu": {"hotplugPorts": 0, "accelerators": ["tcg"]}}`, want: []string{"virtio-mem-pci"},
		},
		"MemoryHotplugAllPorts": {
			reason: "It is beside the last of the ports.",
			sample: "most-devices", site: `{"memory": {"hotplug": true, "bootMiB": 128}, "qemu": {"hotplugPorts": 7, "accelerators": ["tcg"]}}`, want: []string{"virtio-mem-pci"},
		},
	}
	samples := corpus(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Log(tc.reason)
			var site map[string]any
			if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(tc.site), &site); err != nil {
				t.Fatal(err)
			}
			m := placeAt(t, samples[tc.sample], site)
			argv, err := runner.CommandLine(m.config.Boot, runner.Placeholders(m.config))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(strings.Join(argv, "\n"), want) {
					t.Errorf("command line has no %s:\n%q", want, argv)
				}
			}
			accepts(t, m)
		})
	}
}

// accepts starts a VM, and holds that nothing goes wrong until its guest runs, and that nothing is left of it.
func accepts(t *testing.T, m *machine) {
	t.Helper()
	// The pod's user is not there in a user namespace of one user.
	if !root() && m.config.Boot.User != nil {
		t.Skip("to run QEMU as another user takes root")
	}
	got := start(t, m)
	if got.Error != "" || got.End != runner.EndForced {
		t.Errorf("end is %q, error: %s", got.End, got.Error)
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings before the guest ran:\n%s", strings.Join(got.Warnings, "\n"))
	}
	if left := leftOver(t, m); len(left) > 0 {
		t.Errorf("left in the runtime directory: %v", left)
	}
}

type tool struct{ path, what, pkg string }

// neededBy names what a VM needs beyond QEMU.
func neededBy(name string) []tool {
	var tools []tool
	if name == "cdrom-http" {
		tools = append(tools, tool{"/usr/lib/x86_64-linux-gnu/qemu/block-curl.so", "QEMU driver for http", "qemu-block-extra"})
	}
	return tools
}

// leftOver lists what is still in the runtime directory.
func leftOver(t *testing.T, m *machine) []string {
	t.Helper()
	entries, err := os.ReadDir(m.config.Boot.RuntimeDir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	return left
}

// slots bounds how many VMs start at a time. In the network of the tests' own, where ports are taken, it is one.
var slots = sync.OnceValue(func() chan struct{} {
	n := 1
	if isolates() {
		n = max(2, runtime.NumCPU())
	}
	return make(chan struct{}, n)
})

// start runs a VM up to its guest's first instruction in a process of its own, as in its pod.
func start(t *testing.T, m *machine) outcome {
	t.Helper()
	config, err := json.Marshal(m.config)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(m.dir, "config.json"), config)
	if pod := statefulSet(t, m.result).Spec.Template.Spec; root() && *pod.SecurityContext.RunAsUser == 0 {
		names, err := json.Marshal(pod.Containers[0].SecurityContext.Capabilities.Add)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(m.dir, capabilitiesFile), names)
	}
	if len(m.config.Boot.Taps) > 0 && !isolates() {
		t.Skip("no network namespace for bridges can be made (it takes root, or user namespaces)")
	}
	slots() <- struct{}{}
	defer func() { <-slots() }()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+m.dir)
	if isolates() {
		cmd.SysProcAttr = isolation()
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run VM: %v\n%s", err, out)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("run VM: %v\n%s", err, out)
	}
	return o
}

func root() bool { return os.Geteuid() == 0 }

// isolation gives a child a network of its own.
func isolation() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if !root() {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// isolates says whether this machine lets the tests do so.
var isolates = sync.OnceValue(func() bool {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=")
	cmd.SysProcAttr = isolation()
	return cmd.Run() == nil
})

// The corpus has every kind of firmware and every model of interface that the contract names.
func TestCorpusIsComplete(t *testing.T) {
	var text strings.Builder
	for _, s := range corpus(t) {
		text.Write(s.text)
	}
	definition, err := templates(t).Definition()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.FieldsFunc(text.String(), func(r rune) bool { return strings.ContainsRune(" {},:\n[]", r) })
	for _, enum := range enums(definition) {
		if !slices.Contains(fields, enum) && !slices.Contains(fields, `"`+enum+`"`) {
			t.Errorf("no sample has the value %q", enum)
		}
	}
}
