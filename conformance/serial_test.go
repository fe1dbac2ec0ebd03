package conformance

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The guest finds a disk as /dev/disk/by-id/virtio-SERIAL, where SERIAL is the disk's name, as the claim's name begins with
// it. virtio has 20 bytes for it; longer names are shortened, and stay distinct.
func TestDiskSerials(t *testing.T) {
	const most = 20
	m := place(t, corpus(t)["disk-names"])
	q := startOurs(t, m)
	seen := make(map[string]string)
	for i, name := range diskNames(t, m) {
		serial := ask[string](t, q, "qom-get", map[string]any{"path": fmt.Sprintf("/machine/peripheral/disk%d", i), "property": "serial"})
		switch {
		case len(name) <= most && serial != name:
			t.Errorf("disk %s has the serial number %q, want its name", name, serial)
		case len(serial) > most || serial == "":
			t.Errorf("disk %s has the serial number %q, want at most %d bytes", name, serial, most)
		case seen[serial] != "":
			t.Errorf("disks %s and %s have the same serial number %q", name, seen[serial], serial)
		}
		seen[serial] = name
	}
	if len(seen) < 5 {
		t.Errorf("only %d serial numbers were compared", len(seen))
	}
}

// The disk for cloud-init cannot be taken for another.
func TestCloudInitSerial(t *testing.T) {
	q := startOurs(t, place(t, corpus(t)["most-devices"]))
	path := map[string]any{"path": "/machine/peripheral/cloudInit", "property": "serial"}
	if serial := ask[string](t, q, "qom-get", path); serial != "cloud-init" {
		t.Errorf("disk for cloud-init has the serial number %q", serial)
	}
}

// diskNames are the names of the VM's disks, in its order, as the objects' keys have them.
func diskNames(t *testing.T, m *machine) []string {
	t.Helper()
	claims := make(map[string]bool)
	for _, o := range m.result.Objects {
		var claim corev1.PersistentVolumeClaim
		if err := json.Unmarshal(o.JSON, &claim); err == nil && claim.Kind == "PersistentVolumeClaim" {
			claims[claim.Name] = true
		}
	}
	var names []string
	n := 0
	for _, d := range parse(t, "disks", corpus(t)["disk-names"].text).named(t).Spec.VM.Disks {
		name := d.VolumeClaimTemplate.Metadata.Name + "-disk"
		if name == "-disk" {
			name = fmt.Sprintf("disk-%d", n)
		}
		n++
		if !claims[name+"-disk-names-0"] {
			t.Errorf("disk %s has no claim of its name, there are %v", name, sorted(claims))
		}
		names = append(names, name)
	}
	return names
}
