package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// A guest boots from a real block device, and sees it grow.
func TestBlockDevice(t *testing.T) {
	c := loadConfig(t, "minimal")
	path := filepath.Join(t.TempDir(), "volume")
	addSector(t, c, path, bootSector, 1<<20)
	device := loopDevice(t, path)
	for _, a := range c.Boot.Args {
		if a.JSON["node-name"] == "disk0" {
			a.JSON["file"] = map[string]any{"driver": "host_device", "filename": device}
		}
	}
	c.Live.Disks = map[string]runner.LiveDisk{"disk0": {}}
	m := boot(t, c)
	m.shows("B")
	if err := os.Truncate(path, 3<<20); err != nil {
		t.Fatal(err)
	}
	losetup(t, "--set-capacity", device)
	m.until("the disk has grown", func() bool {
		var blocks []struct {
			Inserted struct {
				Image struct {
					Size int64 `json:"virtual-size"`
				} `json:"image"`
			} `json:"inserted"`
		}
		m.execute("query-block", nil, &blocks)
		return len(blocks) == 1 && blocks[0].Inserted.Image.Size == 3<<20
	})
}

// loopDevice makes a block device of a file.
func loopDevice(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device to be had (it takes root): %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { losetup(t, "--detach", device) })
	return device
}

func losetup(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("losetup", args...).CombinedOutput(); err != nil {
		t.Fatalf("losetup %v: %v: %s", args, err, out)
	}
}
