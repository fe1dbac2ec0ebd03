// Package conformance holds tests of what the templates promise about QEMU: that it takes every command line that
// they make, and that a guest finds the hardware that it is told to find. They need the real QEMU.
package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// template is what the tests render with: the templates as a cluster has them.
var template = sync.OnceValues(func() (*render.Set, error) {
	return render.Load(render.Source{Module: cuvee.Files, Package: "templates/vm"})
})

func templates(t testing.TB) *render.Set {
	t.Helper()
	set, err := template()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// sample is a custom resource with the objects that stand for the cluster's.
type sample struct {
	text    []byte
	doc     render.Document
	cluster []render.Document
}

// corpus returns the custom resources in testdata/cr, by name. Together they have every field, and of the fields
// that reach QEMU every kind of value.
func corpus(t testing.TB) map[string]sample {
	t.Helper()
	names, err := filepath.Glob("testdata/cr/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no custom resources in testdata/cr: %v", err)
	}
	samples := make(map[string]sample, len(names))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		samples[strings.TrimSuffix(filepath.Base(name), ".yaml")] = parse(t, name, text)
	}
	return samples
}

// parse reads a custom resource and the objects that follow it.
func parse(t testing.TB, name string, text []byte) sample {
	t.Helper()
	docs, err := render.Decode(name, text)
	if err != nil {
		t.Fatalf("read sample: %v", err)
	}
	return sample{text: text, doc: docs[0], cluster: docs[1:]}
}

func (s sample) named(t testing.TB) *names {
	t.Helper()
	var n names
	data, err := json.Marshal(s.doc.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	return &n
}

// names are the parts of a custom resource that tell which files a VM needs.
type names struct {
	Spec struct {
		VM struct {
			Disks []struct {
				VolumeClaimTemplate *struct {
					Metadata struct{ Name string }
					Spec     struct{ VolumeMode string }
				}
			}
		}
	}
}

// engine is a controller, for the password that only one makes.
var engine = &render.Engine{ResourceVersion: "815", Now: "2026-11-20T08:30:00Z", Random: "00112233445566778899aabbccddeeff"}

// machine is a rendered VM in a directory that has all that its config refers to.
type machine struct {
	dir    string
	result *render.Result
	config *runner.Config
}

// settings put the VM's files below directories.
func settings(dir, data string) map[string]any {
	return map[string]any{
		"paths": map[string]any{
			"config": dir + "/config", "data": data, "images": dir + "/images", "disks": dir + "/disks", "runtime": dir + "/run",
		},
		// A Linux guest may hang under nested KVM, and QEMU's command line is the same but for its name.
		"qemu": map[string]any{"accelerators": []any{"tcg"}},
	}
}

// place renders a sample and makes the files that the node would have.
func place(t testing.TB, s sample) *machine {
	t.Helper()
	return placeAt(t, s, nil)
}

// placeAt does so with the settings of a site, by their groups.
func placeAt(t testing.TB, s sample, site map[string]any) *machine {
	t.Helper()
	// The name is one that QEMU would read as further keys if it were not escaped; swtpm, which keeps its state with the
	// data, knows no escape.
	m := &machine{dir: shortDir(t, "v,id=m\\ ")}
	data := shortDir(t, "vm")
	for _, d := range []string{"config", "images/sub", "disks", "run"} {
		mustMkdir(t, filepath.Join(m.dir, d))
	}
	for _, image := range []string{"disc.iso", "two words.iso", "sub/disc.iso"} {
		mustWrite(t, filepath.Join(m.dir, "images", image), make([]byte, 64<<10))
	}
	all := settings(m.dir, data)
	maps.Copy(all, site)
	values := map[string]any{"settings": all, "diskFiles": m.disks(t, s)}
	var err error
	m.result, err = templates(t).RenderObserving(render.Input{Document: s.doc, Engine: engine, Values: values}, s.cluster)
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	m.config = configOf(t, m.result)
	m.project(t, s)
	return m
}

// disks makes a loop device of each disk that is to be a block device, and a directory for each file in a volume. Where
// the custom resource says neither, the disk is a file.
func (m *machine) disks(t testing.TB, s sample) []any {
	t.Helper()
	var given []any
	claims := 0
	for _, d := range s.named(t).Spec.VM.Disks {
		if d.VolumeClaimTemplate == nil {
			continue
		}
		name := d.VolumeClaimTemplate.Metadata.Name + "-disk"
		if name == "-disk" {
			name = fmt.Sprintf("disk-%d", claims)
		}
		claims++
		mustMkdir(t, filepath.Join(m.dir, "disks", name))
		mode := d.VolumeClaimTemplate.Spec.VolumeMode
		if mode == "Filesystem" {
			continue
		}
		file := filepath.Join(m.dir, name)
		mustWrite(t, file, make([]byte, 1<<20))
		if mode == "Block" {
			file = loopDevice(t, file)
		} else {
			mode = "Filesystem"
		}
		given = append(given, map[string]any{"name": name, "file": file, "mode": mode})
	}
	return given
}

// project writes the pod's projected volume.
func (m *machine) project(t testing.TB, s sample) {
	t.Helper()
	contents := make(map[string]map[string][]byte)
	add := func(object []byte) {
		var secret corev1.Secret
		if err := json.Unmarshal(object, &secret); err != nil {
			return
		}
		if secret.Data == nil {
			secret.Data = make(map[string][]byte)
		}
		for k, v := range secret.StringData {
			secret.Data[k] = []byte(v)
		}
		contents[secret.Name] = secret.Data
	}
	for _, o := range m.result.Objects {
		add(o.JSON)
	}
	for _, d := range s.cluster {
		object, err := json.Marshal(d.Object)
		if err != nil {
			t.Fatal(err)
		}
		add(object)
	}
	for _, source := range projected(t, m.result) {
		if source.Secret == nil {
			continue
		}
		for _, item := range source.Secret.Items {
			data, ok := contents[source.Secret.Name][item.Key]
			if !ok && source.Secret.Optional == nil {
				t.Fatalf("Secret %s has no %s", source.Secret.Name, item.Key)
			}
			if ok {
				path := filepath.Join(m.dir, "config", item.Path)
				mustMkdir(t, filepath.Dir(path))
				mustWrite(t, path, data)
			}
		}
	}
}

func projected(t testing.TB, r *render.Result) []corev1.VolumeProjection {
	t.Helper()
	for _, v := range statefulSet(t, r).Spec.Template.Spec.Volumes {
		if v.Name == "config" && v.Projected != nil {
			return v.Projected.Sources
		}
	}
	t.Fatal("pod has no projected volume named config")
	return nil
}

// configOf returns the runner's config of a rendered VM.
func configOf(t testing.TB, r *render.Result) *runner.Config {
	t.Helper()
	for _, o := range r.Objects {
		if o.Key != "configMap" {
			continue
		}
		var cm corev1.ConfigMap
		if err := json.Unmarshal(o.JSON, &cm); err != nil {
			t.Fatal(err)
		}
		c, err := runner.ParseConfig([]byte(cm.Data["config.json"]))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatal("no ConfigMap is rendered")
	return nil
}

// loopDevice makes a block device of a file, for the time of the test.
func loopDevice(t testing.TB, file string) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Skipf("cannot make a block device, which takes root and losetup: %v", err)
	}
	device := string(bytes.TrimSpace(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "--detach", device).Run(); err != nil {
			t.Errorf("detach %s: %v", device, err)
		}
	})
	return device
}

// shortDir is a directory whose path leaves room for a socket's name, and that QEMU can reach as another user.
func shortDir(t testing.TB, pattern string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mustMkdir and mustWrite make what any user may use.
func mustMkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// requireQEMU skips where QEMU is not installed.
func requireQEMU(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
	}
	return program
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
