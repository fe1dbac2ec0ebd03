package conformance

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The hardware that is compared: each kind of device none, once, and more than once, and all at their most.
var moved = map[string]hardware{
	"Seed":        {firmware: "uefi", cpus: 1, nics: []string{"virtio-net"}, disks: 1, redirects: 2, outputs: 1},
	"Headless":    {firmware: "bios", cpus: 1, nics: []string{"virtio-net"}, disks: 1, redirects: -1, outputs: 1},
	"CloudInit":   {firmware: "bios", cpus: 4, nics: []string{"virtio-net"}, disks: 1, cloudInit: true, redirects: 0, outputs: 1},
	"SeveralNICs": {firmware: "bios", cpus: 1, nics: []string{"virtio-net", "e1000e", "rtl8139", "e1000"}, disks: 3, cloudInit: true, redirects: 1, outputs: 2},
	"CDROMs":      {firmware: "uefi", cpus: 2, nics: []string{"e1000e"}, cdroms: 6, disks: 2, redirects: 2, outputs: 1},
	"NoDisk":      {firmware: "bios", cpus: 1, nics: []string{"virtio-net"}, cdroms: 1, redirects: 2, outputs: 1},
	"NoNIC":       {firmware: "bios", cpus: 1, disks: 2, cloudInit: true, redirects: 2, outputs: 1},
	"Nothing":     {firmware: "bios", cpus: 1, redirects: -1, outputs: 1},
	"Most":        {firmware: "bios", cpus: 8, nics: slices.Repeat([]string{"virtio-net"}, 11), cdroms: 6, disks: 11, cloudInit: true, redirects: mostRedirects, outputs: 16},
	"MostDisks":   {firmware: "bios", cpus: 1, disks: 21, cloudInit: true, redirects: 2, outputs: 1},
}

// A guest that moves here from VM-Operator finds each of its devices where it was, and beside them only the ports for
// devices to come. What QEMU makes without being asked (VM-Operator does not say -nodefaults) is left out on purpose:
//
//   - an interface of the model e1000e where the custom resource has none: a VM without networks has no network here;
//     its place on the bus stays empty, so that those of all others are the same;
//   - a CD drive without a medium on ide.2 where the custom resource has none: there is nothing to put into it;
//   - a parallel port that is connected to nothing;
//   - a USB hub, when there is one port left and something to plug into it: here the last port takes it.
func TestMovedGuestFindsItsDevices(t *testing.T) {
	for name, h := range moved {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots() <- struct{}{}
			defer func() { <-slots() }()
			m := place(t, parse(t, name, h.customResource()))
			argv, fds := h.upstream(t, m.dir)
			theirs := devices(t, startQEMU(t, argv, fds), h)
			if !isolates() {
				t.Skip("two QEMUs with the same port need network namespaces (root, or user namespaces)")
			}
			ours := devices(t, startOurs(t, m), h)

			for _, place := range h.unasked() {
				if _, ok := theirs[place]; !ok {
					t.Errorf("QEMU does not make the device at %s that the test expects to be left out", place)
				}
				delete(theirs, place)
			}
			if h.redirects == mostRedirects {
				theirs["usb port 15"] = theirs["usb port 15.1"]
				delete(theirs, "usb port 15.1")
				delete(theirs, "part of the machine: usb-hub")
			}
			for i := range 4 {
				port := fmt.Sprintf("pci 0:1e.%d", i)
				if ours[port] == "" || theirs[port] != "" {
					t.Errorf("%s is %q, and VM-Operator's %q, want a port of ours only", port, ours[port], theirs[port])
				}
				delete(ours, port)
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("devices (-VM-Operator +ours):\n%s", diff)
			}
		})
	}
}

// mostRedirects is how many USB devices a viewer can pass on: there is a port for each, and one for the tablet.
const mostRedirects = 14

// unasked are the places of the devices that QEMU adds to VM-Operator's VM.
func (h hardware) unasked() []string {
	places := []string{"isa-parallel", "part of the machine: isa-parallel"}
	if len(h.nics) == 0 {
		places = append(places, "pci 0:01.0", "part of the machine: e1000e")
	}
	if h.cdroms == 0 {
		places = append(places, "ide ide.2.0", "part of the machine: ide-cd")
	}
	return places
}

// devices lists what a guest finds, by the place where it finds it. Of disks and interfaces it also tells which.
func devices(t *testing.T, q *qemu, h hardware) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, bus := range ask[[]pciBus](t, q, "query-pci", nil) {
		bus.list(found)
	}
	// The port that QEMU itself has found for a device is no property of it.
	tree := ask[string](t, q, "human-monitor-command", map[string]any{"command-line": "info qtree"})
	for _, m := range usbDevice.FindAllStringSubmatch(tree, -1) {
		found["usb port "+m[3]] = m[1] + number.FindString(m[2])
	}
	for _, d := range qomDevices(t, q) {
		if strings.HasPrefix(d.path, "/machine/unattached/device[") {
			found["part of the machine: "+d.kind] += "*"
		}
		if place, what := d.describe(t, q, h); place != "" {
			found[place] += what
		}
	}
	return found
}

// usbDevice matches a device in the human monitor's tree: its kind, its id, its port.
var usbDevice = regexp.MustCompile(`(?s)dev: (usb-[a-z]+), id "([^"]*)"\r?\n.*?addr [0-9.]+, port ([0-9.]+),`)

type pciBus struct {
	Bus     int
	Devices []struct {
		Slot, Function int
		ClassInfo      struct{ Class int } `json:"class_info"`
		ID             struct{ Vendor, Device int }
	}
}

func (b pciBus) list(found map[string]string) {
	for _, d := range b.Devices {
		place := fmt.Sprintf("pci %d:%02x.%d", b.Bus, d.Slot, d.Function)
		found[place] = fmt.Sprintf("%04x:%04x class %04x", d.ID.Vendor, d.ID.Device, d.ClassInfo.Class)
	}
}

// qomDevice is a device in QEMU's object model.
type qomDevice struct{ path, kind string }

var child = regexp.MustCompile(`^child<(.+)>$`)

// qomDevices lists the devices: those with an id, those without, and those that belong to the machine.
func qomDevices(t *testing.T, q *qemu) []qomDevice {
	t.Helper()
	var all []qomDevice
	for _, dir := range []string{"/machine/peripheral", "/machine/peripheral-anon", "/machine/unattached"} {
		for _, p := range ask[[]struct{ Name, Type string }](t, q, "qom-list", map[string]any{"path": dir}) {
			if m := child.FindStringSubmatch(p.Type); m != nil {
				all = append(all, qomDevice{path.Join(dir, p.Name), m[1]})
			}
		}
	}
	return all
}

func (d qomDevice) get(t *testing.T, q *qemu, property string) any {
	t.Helper()
	return ask[any](t, q, "qom-get", map[string]any{"path": d.path, "property": property})
}

// describe says where the guest finds a device, and what it is. Of PCI devices, which QEMU lists by itself, it only
// says which disk or interface of the VM they are.
func (d qomDevice) describe(t *testing.T, q *qemu, h hardware) (place, what string) {
	t.Helper()
	get := func(property string) any { return d.get(t, q, property) }
	bus := func() string { return path.Base(fmt.Sprint(get("parent_bus"))) }
	switch d.kind {
	case "virtserialport":
		return fmt.Sprintf("virtio-serial port %v", get("nr")), fmt.Sprint(get("name"))
	case "ide-cd":
		return fmt.Sprintf("ide %s.%v", bus(), get("unit")), d.kind
	case "hda-duplex":
		return fmt.Sprintf("hda codec %v", get("cad")), d.kind
	case "isa-serial":
		return fmt.Sprintf("isa-serial %v", get("index")), fmt.Sprint(get("iobase"), get("irq"))
	case "isa-parallel", "isa-fdc":
		return d.kind, d.kind
	case "virtio-vga":
		return "screens", fmt.Sprint(get("max_outputs"), get("max_hostmem"))
	case "virtio-blk-pci":
		return d.pci(t, q), " " + h.disk(get("drive"))
	}
	if strings.Contains(d.kind, "net") || slices.Contains([]string{"e1000", "e1000e", "rtl8139"}, d.kind) {
		return d.netdev(t, q)
	}
	return "", ""
}

// pci is the device's place on the first PCI bus.
func (d qomDevice) pci(t *testing.T, q *qemu) string {
	t.Helper()
	address, ok := d.get(t, q, "addr").(float64)
	if !ok {
		t.Fatalf("%s has no PCI address", d.path)
	}
	return fmt.Sprintf("pci 0:%02x.%d", int(address)>>3, int(address)&7)
}

func (d qomDevice) netdev(t *testing.T, q *qemu) (string, string) {
	t.Helper()
	properties := ask[[]struct{ Name string }](t, q, "qom-list", map[string]any{"path": d.path})
	if !slices.ContainsFunc(properties, func(p struct{ Name string }) bool { return p.Name == "netdev" }) {
		return "", ""
	}
	id := fmt.Sprint(d.get(t, q, "netdev"))
	if id == "" || strings.HasPrefix(id, "#") {
		return "", ""
	}
	return d.pci(t, q), " interface " + ordinal(id)
}

var number = regexp.MustCompile(`[0-9]+`)

// ordinal is the position of an interface in the VM, by the names that VM-Operator and we give them.
func ordinal(id any) string { return number.FindString(fmt.Sprint(id)) }

// disk says which disk of the VM is behind a node. VM-Operator counts the one for cloud-init as the last.
func (h hardware) disk(node any) string {
	n := ordinal(node)
	if n == "" || n == fmt.Sprint(h.disks) {
		return "disk for cloud-init"
	}
	return "disk " + n
}

const (
	ovmfCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Skipf("no UEFI firmware is installed (Debian: ovmf): %v", err)
	}
	mustWrite(t, to, data)
	return to
}
