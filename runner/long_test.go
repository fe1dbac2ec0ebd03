//go:build long

package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cuvee-vm/cuvee/runner"
)

const (
	// longStarts is how many times TestLongStarts starts a VM, longChanges how many times TestLongChanges changes one.
	longStarts  = 200
	longChanges = 1000
	// longHeap is how much the heap may grow over all of them, in bytes: half a KiB for each change, 2.6 KiB for each start.
	longHeap = 512 << 10
	// longRSS is how much the memory of a QEMU that is changed may grow, in bytes.
	longRSS = 32 << 20
)

// usage is what a process and its VM's directories have at a time.
type usage struct {
	// Files are the process's open files, by what they are.
	Files map[string]int
	// Children are the names of its child processes.
	Children []string
	// Paths are the files in the directories of the VM.
	Paths []string
	// goroutines and heap (in bytes) are compared with an allowance.
	goroutines int
	heap       uint64
}

// measure returns what this process uses, and what is in the directories.
func measure(t *testing.T, dirs ...string) usage {
	t.Helper()
	u := usage{Files: filesOf(t, os.Getpid()), Children: childNames(t)}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			u.Paths = append(u.Paths, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The second collection frees what the finalizers of the first have let go.
	runtime.GC()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	u.goroutines, u.heap = runtime.NumGoroutine(), memory.HeapAlloc
	return u
}

// childNames returns the names of this process's child processes.
func childNames(t *testing.T) []string {
	t.Helper()
	children := childrenOf(t, os.Getpid(), nil)
	for _, fd := range children {
		unix.Close(fd)
	}
	return slices.Sorted(maps.Keys(children))
}

// filesOf counts the open files of a process by what they are: their path, or their kind.
func filesOf(t *testing.T, pid int) map[string]int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]int)
	for _, fd := range fds {
		// The descriptor of the directory itself is gone again.
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil {
			kind, _, _ := strings.Cut(target, ":[")
			files[kind]++
		}
	}
	return files
}

// grown fails the test if there is more than before.
func grown(t *testing.T, what string, before, after usage) {
	t.Helper()
	t.Logf("%s: goroutines %d -> %d, heap %d -> %d KiB, files %v -> %v, children %v -> %v", what, before.goroutines, after.goroutines,
		before.heap>>10, after.heap>>10, before.Files, after.Files, before.Children, after.Children)
	if diff := cmp.Diff(before, after, cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".goroutines" || p.Last().String() == ".heap"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("%s leave something (-before +after):\n%s", what, diff)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("%s: %d goroutines run, were %d", what, after.goroutines, before.goroutines)
	}
	if after.heap > before.heap+longHeap {
		t.Errorf("%s: heap has %d bytes, had %d", what, after.heap, before.heap)
	}
}

// calm waits until no more goroutines run than before: one that has nothing more to do may take a moment to be gone.
func calm(goroutines int) {
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		runtime.Gosched()
	}
}

// A VM that is started and stopped again and again, in each of the ways in which it can end, leaves nothing.
func TestLongStarts(t *testing.T) {
	var configs []*runner.Config
	for _, guest := range []byte{guestPowersOff, guestWaits, guestHalts} {
		c := loadConfig(t, "tpm")
		addGuest(t, c, guest)
		c.Live.PowerdownTimeout = 60
		configs = append(configs, c)
	}
	var dirs []string
	for _, c := range configs {
		dirs = append(dirs, c.Boot.DataDir, c.Boot.RuntimeDir)
	}
	ends := []runner.End{runner.EndGuest, runner.EndRequested, runner.EndForced}
	run := func(i int) {
		c, want := configs[i%len(configs)], ends[i%len(ends)]
		if end := startAndStop(t, c, want); end != want {
			t.Fatalf("start %d: end is %q, want %q", i, end, want)
		}
	}
	// The first runs make the files that stay, and what the process keeps for all.
	for i := range 4 * len(configs) {
		run(i)
	}
	before := measure(t, dirs...)
	begin := time.Now()
	for i := range longStarts {
		run(i)
	}
	t.Logf("%d starts took %s", longStarts, time.Since(begin).Round(time.Millisecond))
	calm(before.goroutines)
	grown(t, "starts", before, measure(t, dirs...))
	for _, c := range configs {
		if left, err := os.ReadDir(c.Boot.RuntimeDir); err != nil || len(left) != 0 {
			t.Errorf("runtime directory still has %v (%v)", left, err)
		}
	}
}

// startAndStop runs a VM, and lets it end as wanted.
func startAndStop(t *testing.T, c *runner.Config, want runner.End) runner.End {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	force := make(chan struct{})
	vm := runner.New(c, runner.Options{Force: force, Observe: func(s runner.State) {
		switch {
		case s == runner.Booting && want != runner.EndGuest:
			cancel()
		case s == runner.Terminating && want == runner.EndForced:
			close(force)
		}
	}})
	vm.Hurry()
	end, err := vm.Run(ctx)
	if err != nil {
		t.Fatalf("run that shall end with %s: %v", want, err)
	}
	return end
}

// longVM is a VM that has something of everything that can be changed.
type longVM struct {
	*machine
	isos     []string
	password *secret
	address  string
	// newest is what the password is, serial how many there were.
	newest string
	serial int64
}

func bootLong(t *testing.T) *longVM {
	t.Helper()
	c := withCPUs(t, []byte{0xf4, 0xeb, 0xfd}) // hlt; jmp 0
	device := func(json map[string]any) {
		c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "device", JSON: json})
	}
	device(map[string]any{"driver": "ide-cd", "id": "cd0", "bus": "ide.1"})
	device(map[string]any{"driver": "virtio-balloon-pci", "id": "balloon0"})
	c.Boot.Args = append(c.Boot.Args, runner.Arg{Option: "netdev", Value: "hubport", Keys: map[string]any{"id": "net0-hub", "hubid": 0}})
	device(map[string]any{"driver": "virtio-net-pci", "id": "net0", "netdev": "net0-hub"})
	l := &longVM{newest: "password", serial: 1}
	l.password = newSecret(t, l.newest)
	l.address = addSpice(t, c, l.password.path)
	for i := range 3 {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("medium%d.iso", i))
		if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		l.isos = append(l.isos, path)
	}
	c.Live.CDROMs = map[string]map[string]any{"cd0": medium(l.isos[0])}
	c.Live.Disks = map[string]runner.LiveDisk{"disk0": {}}
	c.Live.Networks = map[string]runner.LiveNetwork{"net0": {Link: runner.LinkUp}}
	// Without a limit the memory for translated code grows with each reset and hides what leaks.
	for i := range c.Boot.Args {
		if c.Boot.Args[i].Option == "accel" {
			c.Boot.Args[i].Keys = map[string]any{"tb-size": 8}
		}
	}
	l.machine = boot(t, c)
	return l
}

// changeOne makes the change of a number, and waits until the VM complies, as far as that can be seen.
func (l *longVM) changeOne(i int) {
	l.t.Helper()
	switch i % 7 {
	case 0:
		l.changeMedium(i / 7 % 4)
	case 1:
		l.changePassword(i)
	case 2:
		link := []string{runner.LinkDown, runner.LinkUp}[i/7%2]
		l.change(func(c *runner.Config) { c.Live.Networks["net0"] = runner.LiveNetwork{Link: link} })
	case 3:
		limit := int64(i) << 20
		l.change(func(c *runner.Config) {
			c.Live.Disks["disk0"] = runner.LiveDisk{Limits: map[string]int64{"bps": limit}}
		})
		l.until("the disk has its limit", func() bool { return l.limit() == limit })
	case 4:
		l.change(func(c *runner.Config) { c.Live.CurrentRAM = 32<<20 + int64(i)<<10 })
	case 5:
		l.change(func(c *runner.Config) { c.Live.PowerdownTimeout = i })
	case 6:
		wish := fmt.Sprint(i)
		l.change(func(c *runner.Config) { c.Live.Reset = wish })
		l.waitFor("the reset is done", func(s runner.Status) bool { return s.Reset == wish })
	}
}

// changeMedium puts in the medium of a number, or leaves the drive empty if there is none.
func (l *longVM) changeMedium(i int) {
	l.t.Helper()
	path := ""
	if i < len(l.isos) {
		path = l.isos[i]
	}
	l.insert(path)
	l.until("the medium is in", func() bool { return l.drive().file == path })
}

// changePassword gives the display a new password, and looks whether it counts.
func (l *longVM) changePassword(i int) {
	l.t.Helper()
	old := l.newest
	l.serial++
	l.newest = fmt.Sprintf("password %d", l.serial)
	l.password.write(l.newest)
	l.waitFor("the password is set", func(s runner.Status) bool { return s.DisplayPasswordSerial == l.serial })
	for password, want := range map[string]bool{old: false, l.newest: true} {
		if got, err := spiceLink(l.address, password); err != nil || got != want {
			l.t.Fatalf("change %d: client with password %q: let in is %v, error %v", i, password, got, err)
		}
	}
}

// limit returns the limit of the disk's throughput.
func (l *longVM) limit() int64 {
	l.t.Helper()
	var all []struct {
		QDev     string          `json:"qdev"`
		Inserted json.RawMessage `json:"inserted"`
	}
	l.execute("query-block", nil, &all)
	for _, b := range all {
		if strings.Contains(b.QDev, "disk0") {
			var inserted struct {
				BPS int64 `json:"bps"`
			}
			if err := json.Unmarshal(b.Inserted, &inserted); err != nil {
				l.t.Fatal(err)
			}
			return inserted.BPS
		}
	}
	l.t.Fatal("no disk disk0")
	return 0
}

// settle brings the VM to where its usage can be compared, with all earlier changes done.
func (l *longVM) settle() {
	l.t.Helper()
	l.changeMedium(0)
	l.waitFor("nothing is pending", noPending)
	// What the guest has said is kept by the test, and is not the runner's.
	l.console.mu.Lock()
	defer l.console.mu.Unlock()
	l.console.text.Reset()
	l.console.read = 0
}

// A VM that is changed again and again complies each time, and neither the runner nor QEMU keeps anything of it.
func TestLongChanges(t *testing.T) {
	l := bootLong(t)
	dirs := []string{l.cfg.Boot.DataDir, l.cfg.Boot.RuntimeDir}
	// CPUs are only plugged in: see TestCPUsLess.
	for n := 2; n <= 4; n++ {
		l.setCPUs(n)
		l.waitFor("the CPUs are there", complies(n))
	}
	for i := range 70 {
		l.changeOne(i)
	}
	l.settle()
	status, _ := l.vm.Status()
	before, qemu, rss := measure(t, dirs...), qemuFiles(t, status.PID), l.rss()
	begin := time.Now()
	for i := range longChanges {
		l.changeOne(i)
	}
	l.settle()
	t.Logf("%d changes took %s", longChanges, time.Since(begin).Round(time.Millisecond))
	calm(before.goroutines)
	grown(t, "changes", before, measure(t, dirs...))
	l.until("QEMU has no more files open", func() bool { return cmp.Equal(qemu, qemuFiles(t, status.PID)) })
	t.Logf("QEMU: RSS %d -> %d KiB, files %v", rss>>10, l.rss()>>10, qemu)
	if now := l.rss(); now > rss+longRSS {
		t.Errorf("QEMU has %d bytes, had %d", now, rss)
	}
	if after, _ := l.vm.Status(); after.PID != status.PID || after.CPUs != 4 {
		t.Errorf("status is %+v, was %+v", after, status)
	}
	l.force()
	if end, err := l.wait(); err != nil || end != runner.EndForced {
		t.Errorf("end is %q, error %v", end, err)
	}
	if left := childNames(t); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// qemuFiles returns the open files of a QEMU, without those that come and go with what the guest's firmware does with virtio.
func qemuFiles(t *testing.T, pid int) map[string]int {
	t.Helper()
	files := filesOf(t, pid)
	delete(files, "anon_inode")
	return files
}

// rss returns how much memory QEMU has, in bytes.
func (l *longVM) rss() int64 {
	l.t.Helper()
	metrics, err := l.vm.Metrics(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return metrics.RSS
}
