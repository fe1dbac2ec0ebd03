package content_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// loopDevice makes a block device of zeros.
func loopDevice(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("block devices take root")
	}
	file := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("detach %s: %v: %s", device, err, out)
		}
	})
	return device
}

// allocated is how much a file takes of its volume.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func writeAt(t *testing.T, path, data string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), at); err != nil {
		t.Fatal(err)
	}
}

// What somebody has on a device is left alone.
func TestFillKeepsDevice(t *testing.T) {
	const size = 16 * mib
	tests := map[string]func(t *testing.T, device string){
		"FileSystem":      func(t *testing.T, device string) { tool(t, nil, "mke2fs", "-q", "-t", "ext4", device) },
		"FirstByte":       func(t *testing.T, device string) { writeAt(t, device, "x", 0) },
		"LastByte":        func(t *testing.T, device string) { writeAt(t, device, "x", size-1) },
		"BtrfsSignature":  func(t *testing.T, device string) { writeAt(t, device, "_BHRfS_M", 0x10040) },
		"HeaderElsewhere": func(t *testing.T, device string) { writeAt(t, device, "CUVEE IMPORT, UNFINISHED\n", 4096) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			device := loopDevice(t, size)
			prepare(t, device)
			before := readFile(t, device)
			got, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, diskBytes(mib))}, content.Target{Path: device}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content.Result{Outcome: content.Kept}, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if !bytes.Equal(before, readFile(t, device)) {
				t.Error("the device has changed")
			}
		})
	}
}

// What an old device has where nobody looks does not come to be in the new disk.
func TestFillClearsDevice(t *testing.T) {
	const size = 32 * mib
	disk := make([]byte, 16*mib)
	copy(disk, diskBytes(mib))
	copy(disk[10*mib:], diskBytes(mib))
	for name, image := range map[string][]byte{"Raw": disk, "Gzip": compressed(t, disk, compressions["Gzip"]), "Qcow2": qcow2Image(t, disk)} {
		t.Run(name, func(t *testing.T) {
			device := loopDevice(t, size)
			for _, at := range []int64{5*mib + 3, 10*mib + 100, 12 * mib, 20 * mib} {
				writeAt(t, device, strings.Repeat("old data of somebody else", 10_000), at)
			}
			if _, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, image)}, content.Target{Path: device}, nil); err != nil {
				t.Fatal(err)
			}
			wantDisk(t, device, disk, size)
		})
	}
}

// A failure in the middle leaves a device that everybody sees is not whole, and that is filled from the start the next time.
func TestFillUnfinishedDevice(t *testing.T) {
	disk := diskBytes(8 * mib)
	device := loopDevice(t, 16*mib)
	_, err := content.Fill(t.Context(), content.Source{URL: serve(t, disk), Checksum: sha256Of(disk[1:])}, content.Target{Path: device}, nil)
	wantReason(t, err, content.ChecksumMismatch)
	state, err := content.Look(device)
	if err != nil {
		t.Fatal(err)
	}
	if state != content.Unfinished {
		t.Errorf("got state %s, want %s", state, content.Unfinished)
	}
	sector := readFile(t, device)[:512]
	if !bytes.Contains(sector, []byte(`"source":"http://127.0.0.1`)) {
		t.Errorf("the first sector does not tell the source: %q", sector)
	}
	if sector[510] != 0 || sector[511] != 0 {
		t.Error("the first sector is one to boot from")
	}
	other := diskBytes(4 * mib)
	if _, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, other)}, content.Target{Path: device}, nil); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, device, other, 16*mib)
}

// What could not be told from an empty device at the next start is refused, as the guest's data would be lost then.
func TestFillDeviceWithNothingAtItsBegin(t *testing.T) {
	disk := make([]byte, 4*mib)
	copy(disk[2*mib:], "data")
	device := loopDevice(t, 16*mib)
	_, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, disk)}, content.Target{Path: device}, nil)
	wantReason(t, err, content.UnsupportedFormat)
}

// What was read of an unfinished device is not taken for a disk: it would be filled again at the next start, over what the guest has written.
func TestFillDeviceWithUnfinished(t *testing.T) {
	disk := damaged(diskBytes(4*mib), 0, "CUVEE IMPORT, UNFINISHED\n")
	for name, image := range map[string][]byte{"Raw": disk, "Qcow2": qcow2Image(t, disk)} {
		t.Run(name, func(t *testing.T) {
			_, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, image)}, content.Target{Path: loopDevice(t, 16*mib)}, nil)
			wantReason(t, err, content.Corrupt)
		})
	}
}

// A device that somebody else has is not touched.
func TestFillDeviceInUse(t *testing.T) {
	device := loopDevice(t, 16*mib)
	other, err := os.OpenFile(device, os.O_RDWR|syscall.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = content.Fill(t.Context(), content.Source{Path: writeFile(t, diskBytes(mib))}, content.Target{Path: device}, nil)
	wantReason(t, err, content.InUse)
	if state, err := content.Look(device); err != nil || state != content.Empty {
		t.Errorf("got state %s, %v", state, err)
	}
}

// Content that is larger than the device is refused before anything is written.
func TestFillDeviceTooSmall(t *testing.T) {
	for name, image := range map[string][]byte{"Raw": diskBytes(4*mib + 512), "Qcow2": qcow2Image(t, diskBytes(4*mib+512))} {
		t.Run(name, func(t *testing.T) {
			device := loopDevice(t, 4*mib)
			_, err := content.Fill(t.Context(), content.Source{Path: writeFile(t, image)}, content.Target{Path: device}, nil)
			wantReason(t, err, content.TooLarge)
			if state, err := content.Look(device); err != nil || state != content.Empty {
				t.Errorf("got state %s, %v", state, err)
			}
		})
	}
}
