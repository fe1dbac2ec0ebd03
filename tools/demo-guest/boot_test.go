package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
)

// cache is the command's default, seen from here, so that tests and the demo share what they download.
const cache = "../../.cache/demo"

const (
	firmwareCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	firmwareVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// TestBoot boots the guest with each kind of firmware and a NoCloud disk, and presses the power button
// when it is ready.
func TestBoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	qemu := requireQEMU(t)
	image := buildImage(ctx, t)
	vars := filepath.Join(t.TempDir(), "vars.fd")
	copyFile(t, vars, firmwareVars)
	cases := map[string]struct {
		firmware []string
		userData string
		shown    string
	}{
		"UEFI": {
			firmware: []string{
				"-drive", "if=pflash,format=raw,readonly=on,file=" + firmwareCode,
				"-drive", "if=pflash,format=raw,file=" + vars,
			},
			userData: "#cloud-config\nruncmd:\n  - echo \"a command\" ran\nlocale: C\n",
			shown:    "  | locale: C",
		},
		"BIOS": { // what QEMU has by default
			userData: "#!/bin/sh\necho a command ran\n",
			shown:    "  | #!/bin/sh",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { bootOnce(ctx, t, image, qemu, c.firmware, c.userData, c.shown) })
	}
}

func bootOnce(ctx context.Context, t *testing.T, image, qemu string, firmware []string, userData, shown string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir := t.TempDir()
	cidata := filepath.Join(dir, "cidata.img")
	writeNoCloud(t, cidata, map[string]string{
		"meta-data": "instance-id: v42\nlocal-hostname: \"hello\"\n",
		"user-data": userData,
	})
	socket := filepath.Join(dir, "qmp")
	cmd := exec.CommandContext(ctx, qemu, append([]string{
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1,maxcpus=2", "-m", "512",
		"-drive", "if=none,id=system,format=raw,snapshot=on,file=" + image, "-device", "virtio-blk-pci,drive=system,bootindex=1",
		"-drive", "if=none,id=cidata,format=raw,file=" + cidata, "-device", "virtio-blk-pci,drive=cidata",
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net",
		"-qmp", "unix:" + socket + ",server=on,wait=off", "-serial", "stdio",
	}, firmware...)...)
	console, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	lines := readUntil(console, "cuvee-demo: ready")
	for _, want := range []string{"hostname: hello", "instance-id: v42", shown, "a command ran", "cuvee-demo: ready"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q on the console", want)
		}
	}
	if !t.Failed() {
		powerDown(ctx, t, socket)
	}
	if t.Failed() {
		cancel()
	}
	rest := readUntil(console, "")
	if err := cmd.Wait(); err != nil {
		t.Errorf("QEMU: %v: %s", err, stderr.String())
	}
	if t.Failed() {
		t.Logf("console:\n%s", strings.Join(append(lines, rest...), "\n"))
	}
}

// requireQEMU skips the test where QEMU or its UEFI firmware is not installed.
func requireQEMU(t *testing.T) string {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
	}
	if _, err := os.Stat(firmwareCode); err != nil {
		t.Skipf("no UEFI firmware (Debian: ovmf): %v", err)
	}
	return qemu
}

// buildImage builds the disk twice: the second time nothing may be left to do.
func buildImage(ctx context.Context, t *testing.T) string {
	t.Helper()
	image := filepath.Join(cache, "guest.raw")
	for range 2 {
		var progress strings.Builder
		err := run(ctx, []string{"-cache", cache}, &progress)
		if errors.Is(err, errPackages) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Log(progress.String())
	}
	return image
}

var terminalCodes = regexp.MustCompile(`\x1b(\[[0-9;?]*[A-Za-z]|c)`)

// readUntil returns the lines up to one that ends with marker, or up to the end, without terminal codes.
func readUntil(r io.Reader, marker string) []string {
	var lines []string
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		line := strings.TrimRight(terminalCodes.ReplaceAllString(scanner.Text(), ""), "\r")
		lines = append(lines, line)
		if marker != "" && strings.HasSuffix(line, marker) {
			break
		}
	}
	return lines
}

// powerDown presses the power button over QMP and waits until QEMU says that the guest shut down.
func powerDown(ctx context.Context, t *testing.T, socket string) {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		t.Errorf("connect to QEMU: %v", err)
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, `{"execute":"qmp_capabilities"}{"execute":"system_powerdown"}`); err != nil {
		t.Errorf("write to QEMU: %v", err)
		return
	}
	messages := json.NewDecoder(conn)
	for {
		var m struct {
			Event string
			Error json.RawMessage
			Data  struct{ Reason string }
		}
		if err := messages.Decode(&m); err != nil {
			t.Errorf("no shutdown before the end of QMP: %v", err)
			return
		}
		if m.Error != nil {
			t.Errorf("QMP: %s", m.Error)
			return
		}
		if m.Event != "SHUTDOWN" {
			continue
		}
		if m.Data.Reason != "guest-shutdown" {
			t.Errorf("shut down by %q, want guest-shutdown", m.Data.Reason)
		}
		return
	}
}

// writeNoCloud makes a disk as cloud-init's NoCloud data source finds it: FAT, labelled CIDATA.
func writeNoCloud(t *testing.T, name string, files map[string]string) {
	t.Helper()
	d, err := diskfs.Create(name, 1<<20, diskfs.SectorSizeDefault)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := d.CreateFilesystem(disk.FilesystemSpec{FSType: filesystem.TypeFat12, VolumeLabel: "CIDATA"})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		f, err := fs.OpenFile("/"+name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
