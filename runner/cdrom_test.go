package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cuvee-vm/cuvee/runner"
)

// drive is what the CD drive has in it.
type drive struct {
	file   string
	open   bool
	locked bool
}

func (m *machine) drive() drive {
	m.t.Helper()
	var all []struct {
		QDev     string `json:"qdev"`
		Locked   bool   `json:"locked"`
		TrayOpen bool   `json:"tray_open"`
		Inserted *struct {
			File string `json:"file"`
		} `json:"inserted"`
	}
	m.execute("query-block", nil, &all)
	for _, b := range all {
		if b.QDev == "cd0" {
			d := drive{open: b.TrayOpen, locked: b.Locked}
			if b.Inserted != nil {
				d.file = b.Inserted.File
			}
			return d
		}
	}
	m.t.Fatal("no drive cd0")
	return drive{}
}

// mediums returns the names of the nodes that are media.
func (m *machine) mediums() []string {
	m.t.Helper()
	var all []struct {
		Node string `json:"node-name"`
		File string `json:"file"`
	}
	m.execute("query-named-block-nodes", map[string]bool{"flat": true}, &all)
	var files []string
	for _, n := range all {
		if filepath.Ext(n.File) == ".iso" && n.Node[0] != '#' {
			files = append(files, filepath.Base(n.File))
		}
	}
	slices.Sort(files)
	return files
}

func medium(path string) map[string]any {
	return map[string]any{"driver": "raw", "read-only": true, "file": map[string]any{"driver": "file", "filename": path, "read-only": true}}
}

func (m *machine) insert(path string) {
	m.t.Helper()
	m.change(func(c *runner.Config) {
		c.Live.CDROMs = map[string]map[string]any{"cd0": nil}
		if path != "" {
			c.Live.CDROMs["cd0"] = medium(path)
		}
	})
}

// keptTray is a VM with a CD drive whose tray its guest locks and opens as it is told.
func keptTray(t *testing.T) (*machine, func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	iso := func(name string) string {
		path := filepath.Join(dir, name+".iso")
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := loadConfig(t, "minimal")
	c.Resolve["machine"] = runner.Choice{Kind: runner.KindMachine, Alternatives: []map[string]string{{"type": "pc"}}}
	// The guest's console is a real serial port, which can be read from.
	c.Boot.Args[len(c.Boot.Args)-1] = runner.Arg{Option: "device", JSON: map[string]any{"driver": "isa-serial", "chardev": "serial0"}}
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: map[string]any{"driver": "ide-cd", "id": "cd0", "bus": "ide.1"}})
	addSector(t, c, filepath.Join(dir, "guest.img"), trayKeeper, 1<<20)
	c.Live.CDROMs = map[string]map[string]any{"cd0": medium(iso("first"))}
	m := boot(t, c)
	m.shows("B")
	return m, iso
}

func noPending(s runner.Status) bool { return len(s.Pending) == 0 }

// A medium is put in, changed and taken out while the guest runs.
func TestMediumChanged(t *testing.T) {
	m, iso := keptTray(t)
	second := iso("second")
	m.insert(second)
	m.until("the second medium is in", func() bool { return m.drive() == drive{file: second} })
	m.insert("")
	m.until("the drive is empty", func() bool { return m.drive() == drive{} })
	if left := m.mediums(); len(left) != 0 {
		t.Errorf("QEMU still has the media %v open", left)
	}
}

// A medium that cannot be had leaves the guest the one that it has, and is put in when it is there.
func TestMediumMissing(t *testing.T) {
	m, iso := keptTray(t)
	first := m.drive().file
	late := filepath.Join(filepath.Dir(first), "late.iso")
	m.insert(late)
	status := m.waitFor("the change is refused", func(s runner.Status) bool { return len(s.Pending) == 1 })
	if p := status.Pending[0]; p.Field != "cdroms.cd0" || p.Waiting {
		t.Errorf("pending is %+v", p)
	}
	if got := m.drive(); got != (drive{file: first}) {
		t.Errorf("drive has %+v, want %s", got, first)
	}
	iso("late")
	m.waitFor("the change is done", noPending)
	if got := m.drive(); got != (drive{file: late}) {
		t.Errorf("drive has %+v, want %s", got, late)
	}
}

// A change waits for a guest that has locked the tray, and the newest one counts. What the guest ejects later is not put back.
func TestTrayLocked(t *testing.T) {
	m, iso := keptTray(t)
	first, second, third := m.drive().file, iso("second"), iso("third")
	m.typeIn("l")
	m.shows("L")
	m.until("the tray is locked", func() bool { return m.drive().locked })

	m.insert(second)
	status := m.waitFor("the change waits", func(s runner.Status) bool { return len(s.Pending) == 1 })
	if p := status.Pending[0]; p.Field != "cdroms.cd0" || !p.Waiting {
		t.Errorf("pending is %+v", p)
	}
	m.insert(third)
	m.until("the newest medium is ready", func() bool { return slices.Equal(m.mediums(), []string{"first.iso", "third.iso"}) })
	if got := m.drive(); got != (drive{file: first, locked: true}) {
		t.Errorf("drive has %+v, want %s", got, first)
	}

	m.typeIn("e")
	m.shows("E")
	m.waitFor("the change is done", noPending)
	if got := m.drive(); got != (drive{file: third}) {
		t.Errorf("drive has %+v, want %s", got, third)
	}

	m.typeIn("e")
	m.shows("E")
	m.until("the guest has opened the tray", func() bool { return m.drive().open })
	// Another change makes sure that the runner has seen the tray's event, and looks at all fields again.
	m.change(func(c *runner.Config) { c.Live.Disks = map[string]runner.LiveDisk{"none": {}} })
	m.waitFor("the other change is refused", func(s runner.Status) bool { return len(s.Pending) == 1 })
	if got := m.drive(); !got.open || got.file != third {
		t.Errorf("drive has %+v, want it open", got)
	}
}

// A change that is taken back while it waits is forgotten.
func TestMediumTakenBack(t *testing.T) {
	m, iso := keptTray(t)
	first, second := m.drive().file, iso("second")
	m.typeIn("l")
	m.shows("L")
	m.until("the tray is locked", func() bool { return m.drive().locked })
	m.insert(second)
	m.waitFor("the change waits", func(s runner.Status) bool { return len(s.Pending) == 1 })
	m.insert(first)
	m.waitFor("nothing waits", noPending)
	if got := m.mediums(); !slices.Equal(got, []string{"first.iso"}) {
		t.Errorf("QEMU has the media %v open", got)
	}
	m.typeIn("e")
	m.shows("E")
	m.until("the guest has opened the tray", func() bool { return m.drive().open })
}
