package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// hardware is what is compared of VM-Operator's VMs and ours.
type hardware struct {
	firmware string
	cpus     int
	// nics are models of interfaces.
	nics          []string
	cdroms, disks int
	cloudInit     bool
	// redirects are the USB devices of the viewer; -1 is a VM without SPICE.
	redirects int
	outputs   int
}

const (
	parityUUID = "5f0c2a1e-88aa-4d51-9d2b-5b8c0f4e7c11"
	parityPort = 5961
)

// customResource is the VirtualMachine with that hardware, for either of the two.
func (h hardware) customResource() []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: moved, namespace: vms}\nspec:")
	if h.cloudInit {
		line("  cloudInit: {userData: {}}")
	}
	line("  vm:\n    machineUuid: %s\n    firmware: %s\n    cpuModel: max\n    maximumCpus: %d\n    maximumRam: 256Mi", parityUUID, h.firmware, h.cpus)
	line("    networks: %s", emptyList(len(h.nics)))
	for _, n := range h.nics {
		line("      - user: {device: %s}", n)
	}
	line("    disks: %s", emptyList(h.disks+h.cdroms))
	for i := range h.disks {
		line("      - {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Mi}}}}, bootindex: %d}", i)
	}
	for range h.cdroms {
		line("      - cdrom: {image: \"\"}")
	}
	line("    display:\n      outputs: %d", h.outputs)
	if h.redirects >= 0 {
		line("      spice: {port: %d, usbRedirects: %d}", parityPort, h.redirects)
	}
	return []byte(b.String())
}

// emptyList is an empty list in YAML, where a list has no entries that follow.
func emptyList(entries int) string {
	if entries > 0 {
		return ""
	}
	return "[]"
}

// upstream is the command line that VM-Operator's runner starts QEMU with (2.3 to 4.0). Nothing differs that a guest
// sees, except: the machine type is one that this QEMU has, too; there is no KVM; interfaces are of the user kind in
// place of those of the bridge helper; what the agents are connected to is nothing.
func (h hardware) upstream(t *testing.T, dir string, more ...string) ([]string, []string) {
	t.Helper()
	c := &commandLine{}
	c.add("S").add("no-user-config")
	c.add("global", "kvm-pit.lost_tick_policy=delay")
	c.add("chardev", "socket,id=charmonitor,fd=3").add("mon", "chardev=charmonitor,id=monitor,mode=control")
	c.add("name", "guest=moved,debug-threads=on").add("uuid", parityUUID)
	c.add("machine", machineType+",usb=off,vmport=off,dump-guest-core=off"+h.flash()+",memory-backend=pc.ram,hpet=off")
	c.add("global", "ICH9-LPC.disable_s3=1").add("global", "ICH9-LPC.disable_s4=1")
	if h.firmware == "uefi" {
		c.add("blockdev", "node-name=fw-rom-device,driver=raw,read-only=on,file.driver=file,file.filename="+ovmfCode)
		c.add("blockdev", "node-name=fw-eeprom-device,driver=raw,read-only=off,file.driver=file,file.filename="+escaped(copyOf(t, ovmfVars, dir+"/vars.fd")))
	}
	c.add("object", "memory-backend-ram,id=pc.ram,size=268435456").add("m", "256")
	c.add("device", "virtio-balloon-pci,id=balloon0")
	c.add("cpu", "max")
	if h.cpus > 1 {
		c.add("smp", fmt.Sprintf("1,maxcpus=%d", h.cpus))
	}
	c.add("accel", "tcg").add("device", "intel-iommu,device-iotlb=on")
	c.add("rtc", "base=utc,clock=rt,driftfix=slew")
	for _, id := range []string{"ptyserial0", "guest-agent-socket", "vmop-agent-socket"} {
		c.add("chardev", "null,id="+id)
	}
	c.add("device", "isa-serial,chardev=ptyserial0,id=serial0,index=0")
	c.add("device", "virtio-serial-pci,id=virtio-serial0")
	c.add("device", "virtserialport,id=channel0,name=org.qemu.guest_agent.0,chardev=guest-agent-socket")
	c.add("device", "virtserialport,id=channel1,name=org.jdrupes.vmop_agent.0,chardev=vmop-agent-socket")
	c.add("device", "qemu-xhci,p2=15,p3=15,id=usb").add("device", "usb-tablet")
	c.add("object", "rng-random,id=objrng0,filename=/dev/random").add("device", "virtio-rng-pci,rng=objrng0,id=rng0")
	c.add("device", fmt.Sprintf("virtio-vga,id=video0,max_outputs=%d,max_hostmem=%d", h.outputs, h.outputs*268435456))
	c.add("device", "ich9-intel-hda,id=sound0")
	h.drives(t, c, dir)
	h.spice(c)
	fds := []string{"qmp"}
	if len(more) > 0 {
		fds = append(fds, extraFD)
		c.add("chardev", "socket,id="+extraFD+",fd=4")
	}
	return append(c.argv, more...), fds
}

func (h hardware) flash() string {
	if h.firmware != "uefi" {
		return ""
	}
	return ",pflash0=fw-rom-device,pflash1=fw-eeprom-device"
}

// drives adds the interfaces, and after them the CD drives and the disks.
func (h hardware) drives(t *testing.T, c *commandLine, dir string) {
	t.Helper()
	for i, n := range h.nics {
		c.add("netdev", fmt.Sprintf("user,id=hostnet%d", i)).add("device", fmt.Sprintf("%s,netdev=hostnet%d", n, i))
	}
	for j := range h.cdroms {
		c.add("drive", fmt.Sprintf("id=drive-cdrom%d,if=none,media=cdrom,readonly=on,file=", j))
		c.add("device", fmt.Sprintf("ide-cd,id=cd%d,bus=ide.%d,drive=drive-cdrom%d", j, j, j))
	}
	disk := func(k int, boot string) {
		c.add("blockdev", fmt.Sprintf("node-name=drive-%d-host-resource,driver=file,filename=%s", k, escaped(image(t, dir, fmt.Sprintf("theirs-%d.img", k)))))
		c.add("blockdev", fmt.Sprintf("node-name=drive-%d-backend,driver=raw,file=drive-%d-host-resource", k, k))
		c.add("device", fmt.Sprintf("virtio-blk-pci,drive=drive-%d-backend%s", k, boot))
	}
	for k := range h.disks {
		disk(k, fmt.Sprintf(",bootindex=%d", k))
	}
	if h.cloudInit {
		disk(h.disks, "")
	}
}

func (h hardware) spice(c *commandLine) {
	if h.redirects < 0 {
		// QEMU would open a window on the machine of the tests.
		c.add("display", "none")
		return
	}
	c.add("spice", fmt.Sprintf("port=%d,disable-ticketing=on,seamless-migration=on", parityPort))
	c.add("chardev", "spicevmc,id=vdagentdev,name=vdagent").add("device", "virtserialport,name=com.redhat.spice.0,chardev=vdagentdev")
	c.add("audiodev", "driver=spice,id=audio1").add("device", "hda-duplex,audiodev=audio1")
	for r := range h.redirects {
		c.add("chardev", fmt.Sprintf("spicevmc,id=charredir%d,name=usbredir", r)).add("device", fmt.Sprintf("usb-redir,id=redir%d,chardev=charredir%d", r, r))
	}
}

// escaped is a path as it has to be written in key=value arguments.
func escaped(path string) string { return strings.ReplaceAll(path, ",", ",,") }

type commandLine struct{ argv []string }

func (c *commandLine) add(option string, argument ...string) *commandLine {
	c.argv = append(append(c.argv, "-"+option), argument...)
	return c
}
