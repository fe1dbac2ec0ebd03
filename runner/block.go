package runner

import (
	"context"
	"fmt"
	"strings"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// blockDevice is one element of query-block: what a disk or drive of the guest has in it.
type blockDevice struct {
	// QDev is the id of the device, or the path of a part of it in QEMU's object tree.
	QDev     string `json:"qdev"`
	Locked   bool   `json:"locked"`
	TrayOpen bool   `json:"tray_open"`
	Inserted *struct {
		Node string `json:"node-name"`
		File string `json:"file"`
		// Driver is the format: raw, qcow2 …
		Driver string `json:"drv"`
		Image  struct {
			Size int64 `json:"virtual-size"`
		} `json:"image"`
	} `json:"inserted"`
}

// id returns the id of the device.
func (b *blockDevice) id() string {
	if strings.HasPrefix(b.QDev, peripheral) {
		return deviceID(b.QDev)
	}
	return b.QDev
}

// findBlockDevice returns the disk or drive with an id.
func findBlockDevice(ctx context.Context, monitor *qmp.Monitor, id string) (*blockDevice, error) {
	var all []blockDevice
	if err := monitor.Execute(ctx, "query-block", nil, &all); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].id() == id {
			return &all[i], nil
		}
	}
	return nil, &qmp.Error{Class: qmp.ClassDeviceNotFound, Desc: fmt.Sprintf("the VM has no disk or drive %q", id)}
}
