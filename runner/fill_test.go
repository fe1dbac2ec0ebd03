package runner_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/content"
	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
)

// filled is a VM with a disk that is filled from a URL before its first boot.
func filled(t *testing.T, c *runner.Config, url string) (*runner.Config, string) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	c.Live.Content = map[string]runner.Content{"disk0": {Name: "system-disk", Path: disk, URL: url, Scratch: t.TempDir()}}
	c.Live.Disks = map[string]runner.LiveDisk{"disk0": {Size: 100 * mib}}
	addDisk(c, disk)
	return c, disk
}

func served(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web.URL + "/disk.raw?signature=secret"
}

// A guest boots from what its disk was filled with, and finds there what it wrote before.
func TestBootFromURL(t *testing.T) {
	image := demodisk.Copy(t)
	compressed, err := exec.Command("gzip", "-1", "-c", image).Output()
	if err != nil {
		t.Fatal(err)
	}
	c, disk := filled(t, withoutDisk(linux(t, "")), served(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", timeZero, bytes.NewReader(compressed))
	}))
	m := boot(t, c)
	m.shows("cuvee-demo: ready")
	m.says("cat /sys/block/vda/size", "204800")
	status, _ := m.vm.Status()
	want := []runner.Import{{Disk: "system-disk", State: runner.Filled, Bytes: 66 * mib, Total: 66 * mib}}
	got := status.Imports
	if len(got) == 1 && strings.HasSuffix(got[0].Source, "/disk.raw") && got[0].Took > 0 {
		got[0].Source, got[0].Took, got[0].Begun = "", 0, timeZero
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
	m.typeIn("echo mine | dd of=/dev/vda bs=512 seek=150000 conv=sync,fsync 2>/dev/null\n")
	m.says("dd if=/dev/vda bs=512 skip=150000 count=1 2>/dev/null | head -n 1", "mine")
	m.force()
	if _, err := m.wait(); err != nil {
		t.Fatal(err)
	}

	// The second start looks at the disk, and at nothing else.
	before, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	again := c.Live.Content["disk0"]
	again.URL, again.Credentials = "http://192.0.2.1/", &runner.Credentials{Secret: "gone", Directory: t.TempDir()}
	c.Live.Content["disk0"] = again
	m = boot(t, c)
	if status, _ := m.vm.Status(); len(status.Imports) != 1 || status.Imports[0].State != runner.ContentKept {
		t.Errorf("imports of the second start: %+v", status.Imports)
	}
	if !bytes.Contains(before, []byte("mine\n")) {
		t.Error("what the guest wrote is not there")
	}
}

// A guest boots from a disk in an image, and what it writes is gone with the run.
func TestBootFromImage(t *testing.T) {
	directory := t.TempDir()
	image := filepath.Join(directory, "disk", "guest.qcow2")
	if err := os.Mkdir(filepath.Dir(image), 0o700); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "convert", "-q", "-f", "raw", "-O", "qcow2", demodisk.Copy(t), image)
	if err := os.Chmod(image, 0o400); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	c := withoutDisk(linux(t, ""))
	overlay := filepath.Join(t.TempDir(), "overlays", "disk0.qcow2")
	addOverlay(c, directory, overlay)
	for range 2 {
		m := boot(t, c)
		m.shows("cuvee-demo: ready")
		m.says("dd if=/dev/vda bs=512 skip=130000 count=1 2>/dev/null | grep -c mine", "0")
		m.typeIn("echo mine | dd of=/dev/vda bs=512 seek=130000 conv=sync,fsync 2>/dev/null\n")
		m.says("dd if=/dev/vda bs=512 skip=130000 count=1 2>/dev/null | grep -c mine", "1")
		m.force()
		if _, err := m.wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(overlay); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("overlay after the run: %v", err)
		}
	}
	if after, err := os.ReadFile(image); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the image has changed (%v)", err)
	}
}

// addOverlay gives a VM a throw-away disk, as the templates do.
func addOverlay(c *runner.Config, directory, overlay string) {
	c.Resolve["disk0-image"] = runner.Choice{Kind: runner.KindDiskImage, Path: overlay, Alternatives: []map[string]string{
		{"reference": "registry.example/os:1", "directory": directory},
	}}
	c.Boot.Args = append(c.Boot.Args,
		runner.Arg{Option: "blockdev", JSON: map[string]any{
			"node-name": "disk0", "driver": "qcow2", "file": map[string]any{"driver": "file", "filename": overlay},
			"backing": map[string]any{
				"driver": map[string]any{"resolve": "disk0-image.format"}, "read-only": true,
				"file": map[string]any{"driver": "file", "read-only": true, "filename": map[string]any{"resolve": "disk0-image.file"}},
			},
		}},
		runner.Arg{Option: "device", JSON: map[string]any{"driver": "virtio-blk-pci", "id": "disk0", "drive": "disk0", "bootindex": 0}},
	)
}

// A disk that refers to other files is not given to QEMU.
func TestImageWithBackingFileIsRefused(t *testing.T) {
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "disk"), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, mib), 0o600); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", filepath.Join(directory, "disk", "a.qcow2"))
	c := loadConfig(t, "minimal")
	addOverlay(c, directory, filepath.Join(t.TempDir(), "disk0.qcow2"))
	_, err := launch(t, c, nil).wait()
	if err == nil || !strings.Contains(err.Error(), "registry.example/os:1") || !strings.Contains(err.Error(), "backing file") {
		t.Errorf("error is %v", err)
	}
}

// What no guest can boot from is said to be that: a format that is not raw, or a disk that is compressed.
func TestImageOfAnotherFormatIsRefused(t *testing.T) {
	for name, disk := range map[string]string{"Gzip": "\x1f\x8b\x08", "VMDK": "KDMV", "WebPage": "<!DOCTYPE html>"} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			if err := os.Mkdir(filepath.Join(directory, "disk"), 0o700); err != nil {
				t.Fatal(err)
			}
			data := make([]byte, mib)
			copy(data, disk)
			if err := os.WriteFile(filepath.Join(directory, "disk", "a"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			c := loadConfig(t, "minimal")
			addOverlay(c, directory, filepath.Join(t.TempDir(), "disk0.qcow2"))
			_, err := launch(t, c, nil).wait()
			var fault *content.Error
			if !errors.As(err, &fault) || fault.Reason != content.UnsupportedFormat || !strings.Contains(err.Error(), "registry.example/os:1") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// A guest does not run on a block device that is half filled, when its source is taken away meanwhile.
func TestHalfADiskIsNotStarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	if err := os.WriteFile(path, make([]byte, 4*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	device := loopDevice(t, path)
	c, _ := filled(t, loadConfig(t, "minimal"), served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2097152")
		if _, err := w.Write(bytes.Repeat([]byte("x"), mib)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	entry := c.Live.Content["disk0"]
	entry.Path = device
	c.Live.Content["disk0"] = entry
	c.Resolve["disk0"] = runner.Choice{Kind: runner.KindAIO, Path: device, Alternatives: []map[string]string{{"aio": "threads", "direct": "off"}}}
	m := launch(t, c, nil)
	m.until("the disk is filled in part", func() bool { return content.IsUnfinished(device) })
	m.change(func(c *runner.Config) { c.Live.Content = nil })
	if _, err := m.wait(); err == nil || !strings.Contains(err.Error(), "was filled only in part") {
		t.Errorf("error is %v", err)
	}
}

// What cannot be filled keeps the VM from being started, until the config is another one.
func TestImportWaitsForAnotherConfig(t *testing.T) {
	good := served(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", timeZero, bytes.NewReader(bytes.Repeat([]byte("content\n"), mib/8)))
	})
	c, disk := filled(t, loadConfig(t, "minimal"), served(t, http.NotFound))
	m := launch(t, c, nil)
	s := m.waitFor("the import has failed", func(s runner.Status) bool { return s.Reason == runner.ReasonImportFailed })
	if s.State != runner.Starting || s.PID != 0 || len(s.Imports) != 1 || s.Imports[0].State != runner.ImportFailed || !strings.Contains(s.Message, "404") || strings.Contains(s.Message+s.Imports[0].Source, "secret") {
		t.Errorf("status is %+v", s)
	}
	m.change(func(c *runner.Config) {
		content := c.Live.Content["disk0"]
		content.URL = good
		c.Live.Content["disk0"] = content
	})
	m.waitFor("guest is started", func(s runner.Status) bool { return s.Booted != nil && s.State != runner.Starting })
	data, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 100*mib || !bytes.HasPrefix(data[mib-8:], []byte("content\n\x00")) {
		t.Errorf("the disk has %d bytes, and %q at the end of its content", len(data), data[mib-8:mib+1])
	}
}

// A server that is away is asked again and again, and told once.
func TestImportToldOnce(t *testing.T) {
	asked := make(chan struct{}, 100)
	c, _ := filled(t, loadConfig(t, "minimal"), served(t, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	m := launch(t, c, nil)
	var told []string
	for len(asked) < 13 {
		select {
		case e := <-m.vm.Events():
			told = append(told, e.Reason)
		case <-time.After(10 * time.Millisecond):
		case <-m.done:
			t.Fatal(m.err)
		}
	}
	if want := []string{runner.ReasonStarting, runner.ReasonImporting, runner.ReasonImportFailed}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A URL that is none is a failure to be told, not the end of the runner.
func TestImportOfNoURL(t *testing.T) {
	c, _ := filled(t, loadConfig(t, "minimal"), "https://images.example/%zz?signature=secret")
	s := launch(t, c, nil).waitFor("the import has failed", func(s runner.Status) bool { return s.Reason == runner.ReasonImportFailed })
	if want := "disk system-disk: the URL is not valid"; s.Message != want {
		t.Errorf("message is %q, want %q", s.Message, want)
	}
}

// An image that the pod does not have is one of a changed VirtualMachine.
func TestImportNeedsMountedImage(t *testing.T) {
	c, _ := filled(t, loadConfig(t, "minimal"), "")
	entry := c.Live.Content["disk0"]
	entry.Image = &runner.ContentImage{Reference: "registry.example/os:2", Directory: filepath.Join(t.TempDir(), "source-disk0")}
	c.Live.Content["disk0"] = entry
	_, err := runner.Run(t.Context(), c, runner.Options{})
	if err == nil || !strings.Contains(err.Error(), "registry.example/os:2 is not mounted") {
		t.Errorf("error is %v", err)
	}
}

// What a Secret lacks is said, and when it comes the import goes on.
func TestImportWaitsForSecret(t *testing.T) {
	asked := make(chan string, 10)
	c, _ := filled(t, loadConfig(t, "minimal"), served(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		http.ServeContent(w, r, "", timeZero, bytes.NewReader(make([]byte, mib)))
	}))
	secrets := t.TempDir()
	entry := c.Live.Content["disk0"]
	entry.Credentials = &runner.Credentials{Secret: "images", Directory: secrets}
	c.Live.Content["disk0"] = entry
	m := launch(t, c, nil)
	s := m.waitFor("the import has failed", func(s runner.Status) bool { return s.Reason == runner.ReasonImportFailed })
	if want := "disk system-disk: the Secret images has no username, no accessKeyId and no token, or is not there"; s.Message != want {
		t.Errorf("message is %q, want %q", s.Message, want)
	}
	if err := os.WriteFile(filepath.Join(secrets, "token"), []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.waitFor("guest is started", func(s runner.Status) bool { return s.Booted != nil && s.State != runner.Starting })
	if got := <-asked; got != "Bearer abc" {
		t.Errorf("the server was shown %q", got)
	}
}

// A stop calls an import off, and the next start begins it again.
func TestStopCallsImportOff(t *testing.T) {
	begun := make(chan struct{}, 10)
	c, disk := filled(t, loadConfig(t, "minimal"), served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1048576")
		if _, err := w.Write(bytes.Repeat([]byte("x"), mib/2)); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	m := launch(t, c, nil)
	<-begun
	if s, _ := m.vm.Status(); s.State != runner.Starting || s.Reason != runner.ReasonImporting || s.PID != 0 {
		t.Errorf("status while it is filled is %+v", s)
	}
	m.stop()
	if end, err := m.wait(); err != nil || end != runner.EndCalledOff {
		t.Errorf("end is %q, %v", end, err)
	}
	if s, _ := m.vm.Status(); len(s.Imports) != 0 {
		t.Errorf("imports after the end are %+v", s.Imports)
	}
	if _, err := os.Stat(disk); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half of a disk is there: %v", err)
	}
}

// Where the config cannot change, a failure is the end.
func TestImportFailsWithoutConfigs(t *testing.T) {
	c, _ := filled(t, loadConfig(t, "minimal"), served(t, http.NotFound))
	_, err := runner.Run(t.Context(), c, runner.Options{})
	var fault *content.Error
	if !errors.As(err, &fault) || fault.Reason != content.NotFound {
		t.Errorf("error is %v", err)
	}
}

func qemuImg(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v\n%s", err, out)
	}
}

// timeZero is no time.
var timeZero time.Time

// withoutDisk takes a VM's disk away, for another one.
func withoutDisk(c *runner.Config) *runner.Config {
	c.Boot.Args = slices.DeleteFunc(c.Boot.Args, func(a runner.Arg) bool { return a.JSON["node-name"] == "disk0" || a.JSON["drive"] == "disk0" })
	return c
}
