package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Format is the newest config format that this runner writes about and reads, as "major.minor".
// A runner accepts every config of its own major format: a minor version only adds fields, and
// fields that a runner does not know are ignored.
const Format = "1.1"

// ErrFormat says that a config was made for another major format than this runner's.
var ErrFormat = errors.New("config format not supported")

// Config is the rendered document that a VM is started from: config.json in the VM's ConfigMap.
// The templates write it, the runner only reads it.
type Config struct {
	// Format is the version of this document's shape, "major.minor".
	Format string `json:"format"`
	// Revision is a digest of Resolve and Boot: equal revisions start equal VMs.
	Revision string `json:"revision"`
	// Resolve names what only the machine that the VM runs on can tell, by name.
	Resolve map[string]Choice `json:"resolve"`
	// Boot is what takes a new QEMU process to change.
	Boot Boot `json:"boot"`
	// Live is what can be changed in a running VM.
	Live Live `json:"live"`
	// Why tells which field of the spec is behind Boot, with its value: where two configs differ,
	// these are the fields that need a restart.
	Why map[string]json.RawMessage `json:"why,omitempty"`
}

// Choice is one thing that the runner finds out where the VM runs. It takes the first alternative that works.
type Choice struct {
	// Kind says how an alternative is tried: see the Kind constants.
	Kind string `json:"kind"`
	// Alternatives in order of preference; each is a set of values that arguments refer to.
	Alternatives []map[string]string `json:"alternatives"`
	// Keep asks that the choice of the first start is used as long as it works, so that a guest's
	// hardware does not change under it.
	Keep bool `json:"keep,omitempty"`
	// Path is the file or device that the choice is about (KindAIO, KindDiskImage).
	Path string `json:"path,omitempty"`
}

// The kinds of choices. The list is closed: everything else about a VM's hardware is in the config.
const (
	// KindAccelerator: an alternative's "name" is an accelerator of QEMU, "kvm" or "tcg".
	// kvm works where a guest runs under it; with the value "probe" of "off", since 1.1, where /dev/kvm can be opened.
	KindAccelerator = "accelerator"
	// KindMachine: an alternative's "type" is a machine type; it works if this QEMU has it. An alias
	// ("q35") is kept as the versioned name that it stands for.
	KindMachine = "machine"
	// KindFirmware: an alternative's "code" and "vars" are files; it works if both exist. Since 1.1 an alternative may say
	// instead which firmware to look for among QEMU's firmware descriptors: "descriptor" is its interface ("uefi"),
	// "architecture" and "machine" are what it has to run on ("x86_64", "pc-q35-*"), "with" and "without" are features, separated by
	// blanks. It then has the "code" and "vars" of what was found.
	KindFirmware = "firmware"
	// KindAIO: an alternative's "aio" is io_uring, native or threads and "direct" is on or off
	// (cache.direct); it works if the kernel and the file at Path take it.
	KindAIO = "aio"
	// KindUUID: an alternative's "uuid" is the machine's UUID; it always works. With Keep the UUID in
	// <data dir>/uuid.txt has precedence.
	KindUUID = "uuid"
	// KindDiskImage: an alternative's "directory" is where a container image is mounted, or a file; "path" is the disk in it, without
	// which it is the only file of the directory "disk"; "reference" is the image's name, for people. It then has the disk's "file" and "format" (raw or
	// qcow2). The file at Path is made anew at each start: an empty qcow2 overlay of the disk's size, for what the guest writes. Since 1.1.
	KindDiskImage = "diskImage"
)

// descriptorKey is what tells an alternative that is to be looked for from one that names files.
const descriptorKey = "descriptor"

// directoryKey is where an alternative says where an image is.
const directoryKey = "directory"

// gives says whether an alternative has a value, or will have it once it has been looked for.
func (c Choice) gives(a map[string]string, value string) bool {
	if _, ok := a[value]; ok {
		return true
	}
	switch c.Kind {
	case KindFirmware:
		return a[descriptorKey] != "" && (value == "code" || value == "vars")
	case KindDiskImage:
		return a[directoryKey] != "" && (value == "file" || value == "format")
	}
	return false
}

// Boot is what a QEMU process is started with.
type Boot struct {
	// Name is the VM's name, for messages.
	Name string `json:"name"`
	// Namespace is the VM's namespace, for messages.
	Namespace string `json:"namespace,omitempty"`
	// Binaries are the names or paths of QEMU; the first that exists is started.
	Binaries []string `json:"binaries"`
	// DataDir is the directory of what outlives a start: firmware variables, the TPM's state, kept choices.
	DataDir string `json:"dataDir"`
	// RuntimeDir is the directory of what ends with the process: sockets, the cloud-init disk.
	RuntimeDir string `json:"runtimeDir"`
	// Args are QEMU's options, in order.
	Args []Arg `json:"args"`
	// Images are the raw image files of disks in Filesystem volumes: made sparse when they are not
	// there, grown when they are smaller, never shrunk.
	Images []Image `json:"images,omitempty"`
	// Firmware is the place of the firmware's variables; absent for BIOS.
	Firmware *Firmware `json:"firmware,omitempty"`
	// NoCloud is the cloud-init disk to make before the start.
	NoCloud *NoCloud `json:"noCloud,omitempty"`
	// TPM is the emulated TPM to start before QEMU.
	TPM *TPM `json:"tpm,omitempty"`
	// Taps are the tap devices to open and pass to QEMU.
	Taps []Tap `json:"taps,omitempty"`
	// User is whom QEMU runs as, where the runner itself has to be root.
	User *User `json:"user,omitempty"`
	// Lease is what keeps others from the VM's block volumes. It is the caller's to hold; Run does not look at it. Since 1.1.
	Lease *Lease `json:"lease,omitempty"`
}

// Arg is one option of QEMU. At most one of JSON and (Value, Keys) is given; with none of them the
// option has no argument. A value is a string, a number, a boolean, or a reference to what the runner
// fills in: {"resolve": "machine.type"} a choice's value (where the chosen alternative has no such
// value the key is left out), {"fd": "qmp"} the number of a file descriptor that QEMU inherits: a tap of
// Boot.Taps, or else one end of a socket pair whose other end the runner has. In JSON a choice's "on" and "off" become
// true and false. What QEMU would read as more than one value is refused: an equals sign in Value (but for options
// that QEMU does not parse, such as append), and a comma anywhere in -cpu, whose parser knows no escape.
type Arg struct {
	// Option is the option's name, without the dash.
	Option string `json:"option"`
	// JSON is the argument of an option that takes JSON.
	JSON map[string]any `json:"json,omitempty"`
	// Value is an argument, or the part of it that comes before the first key.
	Value any `json:"value,omitempty"`
	// Keys become key=value, sorted by key, commas doubled.
	Keys map[string]any `json:"keys,omitempty"`
}

// Image is a raw image file.
type Image struct {
	Path string `json:"path"`
	// Size in bytes. Without it the image has the size of Disk.
	Size int64 `json:"size,omitempty"`
	// Disk is the id of the device in Live.Disks that has the image's size, which can grow while the VM runs. Since 1.1.
	Disk string `json:"disk,omitempty"`
}

// Firmware says where the UEFI variables of the VM are kept.
type Firmware struct {
	// Choice is the name of the Choice whose "vars" is the template of the variables.
	Choice string `json:"choice"`
	// Kind is the firmware asked for ("uefi", "secure" …): other variables are made when it changes.
	Kind string `json:"kind"`
	// Vars is the file of the variables.
	Vars string `json:"vars"`
}

// NoCloud is a cloud-init data source: a vfat disk labelled CIDATA
// (https://cloudinit.readthedocs.io/en/latest/reference/datasources/nocloud.html).
type NoCloud struct {
	// Image is the path of the disk image to make.
	Image string `json:"image"`
	// Files maps names on the disk (meta-data, user-data, network-config) to the files to read.
	// A file that is absent is left out, but for meta-data, which must be there.
	Files map[string]string `json:"files"`
}

// TPM is an emulated TPM 2.0 (swtpm).
type TPM struct {
	// State is the directory that the TPM keeps its state in.
	State string `json:"state"`
	// Socket is the path of swtpm's control socket.
	Socket string `json:"socket"`
}

// Tap is a tap device on a bridge of the network namespace that the runner is in.
type Tap struct {
	// FD is the name that arguments refer to the device by.
	FD string `json:"fd"`
	// Bridge is the name of the bridge.
	Bridge string `json:"bridge"`
}

// User is a numeric user with its groups.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// Groups are further groups, which may open block devices and /dev/kvm.
	Groups []uint32 `json:"groups,omitempty"`
}

// Lease is a Lease (coordination.k8s.io) that QEMU may run under only as long as it is held. Image locks do not reach from one
// pod to another where a volume is a block device.
type Lease struct {
	// Name of the object, in the VM's namespace.
	Name string `json:"name"`
	// Duration in seconds that it is the holder's after each renewal.
	Duration int `json:"duration"`
	// Strict says that QEMU is ended also when the API server could not be reached for so long that another runner
	// might have taken the Lease. Otherwise QEMU is ended when another one has.
	Strict bool `json:"strict,omitempty"`
}

// Live is what a running VM follows. A field that is left out, or an entry of a map, asks for nothing.
type Live struct {
	// PowerdownTimeout is how long, in seconds, a guest may take to shut down.
	PowerdownTimeout int `json:"powerdownTimeout"`
	// GuestShutdownStops says that a VM whose guest shut itself down stays stopped.
	GuestShutdownStops bool `json:"guestShutdownStops"`
	// CurrentCPUs is the number of CPUs that are plugged in.
	CurrentCPUs int `json:"currentCpus"`
	// CurrentRAM is the size that the balloon leaves to the guest, in bytes.
	CurrentRAM int64 `json:"currentRam"`
	// Memory are the sizes, in bytes, that virtio-mem devices give the guest, by the device's id. Since 1.1.
	Memory map[string]int64 `json:"memory,omitempty"`
	// CDROMs are the media by the id of the drive; null is an empty drive. A medium is the argument of
	// QMP's blockdev-add but for node-name.
	CDROMs map[string]map[string]any `json:"cdroms,omitempty"`
	// Disks are the disks by the id of the device. Since 1.1.
	Disks map[string]LiveDisk `json:"disks,omitempty"`
	// Content is what disks are filled with before QEMU is started, by the id of the device: those that have no content yet. A change counts
	// until then. Since 1.1.
	Content map[string]Content `json:"content,omitempty"`
	// Networks are the network interfaces by the id of the device. Since 1.1.
	Networks map[string]LiveNetwork `json:"networks,omitempty"`
	// Display is the display's password, where it has one.
	Display *Display `json:"display,omitempty"`
	// LoggedInUser is who shall be logged in to the guest by VM-Operator's agent in it; empty for nobody. Since 1.1.
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// Reset asks for a reset of the guest by being another text than before. What is there at the start is done by
	// the start. Since 1.1.
	Reset string `json:"reset,omitempty"`
	// Generation is the metadata.generation of the resource that the config was made from, which a status says to be about.
	// 0 is none. Since 1.1.
	Generation int64 `json:"generation,omitempty"`
}

// LiveDisk is what can be changed of a disk.
type LiveDisk struct {
	// Size in bytes that the guest shall see at least; a disk never shrinks. Without it the size follows the file or block
	// device behind the disk when that grows.
	Size int64 `json:"size,omitempty"`
	// Limits are the arguments of QMP's block_set_io_throttle but for the disk's name: bps, iops_rd, bps_wr_max …
	// Those that are left out are not limited.
	Limits map[string]int64 `json:"limits,omitempty"`
}

// Content is what a disk is filled with: a disk in an image, or what is at a URL. See package content for the formats.
type Content struct {
	// Name is the disk's, for people.
	Name string `json:"name"`
	// Path is the file or block device that is filled. A file gets the size that Disks has.
	Path string `json:"path"`
	// Image is a container image.
	Image *ContentImage `json:"image,omitempty"`
	// URL is a http or https URL, or a file: URL.
	URL string `json:"url,omitempty"`
	// Checksum is "sha256:" or "sha512:" and the checksum of what is at the URL.
	Checksum string `json:"checksum,omitempty"`
	// Proxy is that to the URL.
	Proxy string `json:"proxy,omitempty"`
	// Credentials are what the server of the URL wants to see.
	Credentials *Credentials `json:"credentials,omitempty"`
	// CA are certificate authorities, beside those of the system.
	CA *CertificateAuthorities `json:"ca,omitempty"`
	// Scratch is a directory for what has to be converted.
	Scratch string `json:"scratch,omitempty"`
}

// ContentImage is a container image with a disk in it.
type ContentImage struct {
	// Reference is the image's name, for people.
	Reference string `json:"reference"`
	// Directory is where it is mounted, or a file that is the disk.
	Directory string `json:"directory"`
	// Path is the disk in it. Without it, it is the only file of the directory "disk".
	Path string `json:"path,omitempty"`
}

// Credentials are the keys of a Secret as files: username and password, accessKeyId and secretKey (which are the same), or token.
type Credentials struct {
	// Secret is its name, for people.
	Secret string `json:"secret"`
	// Directory has the files.
	Directory string `json:"directory"`
}

// CertificateAuthorities are a file of certificates in PEM.
type CertificateAuthorities struct {
	// ConfigMap is where they come from, for people.
	ConfigMap string `json:"configMap"`
	// File has them.
	File string `json:"file"`
}

// LiveNetwork is what can be changed of a network interface.
type LiveNetwork struct {
	// Link is LinkUp or LinkDown: whether the cable is plugged in. Without it, it is.
	Link string `json:"link,omitempty"`
}

// The states of a link.
const (
	LinkUp   = "up"
	LinkDown = "down"
)

// Display tells where a display's password comes from.
type Display struct {
	// Protocol is "spice" or "vnc".
	Protocol string `json:"protocol"`
	// PasswordFile holds the password.
	PasswordFile string `json:"passwordFile"`
	// ExpiryFile holds QMP's expire_password time: now, never, +seconds or seconds since the epoch.
	ExpiryFile string `json:"expiryFile,omitempty"`
}

// ParseConfig reads a config of this runner's major format. Its errors wrap ErrFormat if the format is another.
func ParseConfig(data []byte) (*Config, error) {
	var head struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	if major(head.Format) != major(Format) {
		return nil, fmt.Errorf("read config: %w: %q, this runner reads %s.x", ErrFormat, head.Format, major(Format))
	}
	var c Config
	// A size in bytes has to come out as it went in, so numbers stay text.
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return &c, nil
}

func major(format string) string {
	m, _, _ := strings.Cut(format, ".")
	if _, err := strconv.Atoi(m); err != nil {
		return ""
	}
	return m
}
