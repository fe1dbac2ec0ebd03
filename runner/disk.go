package runner

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// diskSize is the size that the guest sees of a disk. It only grows.
type diskSize struct {
	monitor *qmp.Monitor
	log     *slog.Logger
	every   time.Duration
	id      string
	// node and file are what is behind the disk, size what the guest sees, once they are known.
	node, file string
	size       int64
	// image says that the file is none that grows as the disk does.
	image bool
}

func (d *diskSize) apply(ctx context.Context, live *Live) error {
	if d.node == "" {
		if err := d.learn(ctx); err != nil {
			return err
		}
	}
	want := live.Disks[d.id].Size
	if want == 0 && d.image {
		return nil
	}
	if want == 0 {
		var err error
		if want, err = sizeOf(d.file); err != nil {
			return err
		}
		// QEMU has whole sectors.
		want -= want % sector
	}
	if want <= d.size {
		return nil
	}
	args := map[string]any{"node-name": d.node, "size": want}
	if err := d.monitor.Execute(ctx, "block_resize", args, nil); err != nil {
		return err
	}
	d.log.Info("disk has grown", "disk", d.id, "from", d.size, "to", want)
	d.size = want
	return nil
}

// sector is the number of bytes in a sector.
const sector = 512

func (d *diskSize) learn(ctx context.Context) error {
	disk, err := findBlockDevice(ctx, d.monitor, d.id)
	if err != nil {
		return err
	}
	if disk.Inserted == nil {
		return fmt.Errorf("there is nothing in drive %q", d.id)
	}
	d.node, d.file, d.size = disk.Inserted.Node, disk.Inserted.File, disk.Inserted.Image.Size
	d.image = disk.Inserted.Driver != "raw"
	return nil
}

func (d *diskSize) wakes(qmp.Event) bool { return false }

// QEMU has opened the disk with the size that it has. What the config says beyond that comes as if it had changed right after the start.
func (d *diskSize) late() {}

// polls looks at the file or device where the config names no size.
func (d *diskSize) polls(live *Live) time.Duration {
	if disk, ok := live.Disks[d.id]; !ok || disk.Size > 0 {
		return 0
	}
	return d.every
}

// sizeOf returns the size of a file or block device.
func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("find out size: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("find out size of %s: %w", path, err)
	}
	return size, nil
}

// diskLimits are the limits of a disk's throughput.
type diskLimits struct {
	monitor *qmp.Monitor
	id      string
	done    map[string]int64
}

func (d *diskLimits) apply(ctx context.Context, live *Live) error {
	want := live.Disks[d.id].Limits
	if maps.Equal(want, d.done) {
		return nil
	}
	disk, err := findBlockDevice(ctx, d.monitor, d.id)
	if err != nil {
		return err
	}
	// QMP wants these, 0 being no limit; others may be left out.
	args := map[string]any{"id": disk.QDev, "bps": 0, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}
	for name, limit := range want {
		args[name] = limit
	}
	if err := d.monitor.Execute(ctx, "block_set_io_throttle", args, nil); err != nil {
		return err
	}
	d.done = want
	return nil
}

func (d *diskLimits) wakes(qmp.Event) bool { return false }
