//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// running is the key of the test that a script is.
type running struct{}

// cmdProcesses prints the ids of the processes with a name in the pods of a selector, on whatever node of this machine:
//
//	processes [-n NAMESPACE] SELECTOR NAME
//
// The name is the kernel's, which has 15 characters at most. With "!" there shall be none.
func cmdProcesses(ts *testscript.TestScript, neg bool, args []string) {
	k, _ := ts.Value(kube{}).(kube)
	if len(args) == 4 && args[0] == "-n" {
		k.namespace, args = args[1], args[2:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: processes [-n NAMESPACE] SELECTOR NAME")
	}
	out, err := k.kubectl("get", "pods", "-l", args[0], "-o", "jsonpath={.items[*].metadata.uid}")
	ts.Check(err)
	ids, err := processesOf(strings.Fields(out), args[1])
	ts.Check(err)
	for _, id := range ids {
		fmt.Fprintln(ts.Stdout(), id)
	}
	if neg != (len(ids) == 0) {
		ts.Fatalf("there are %d processes %s in the pods of %s", len(ids), args[1], args[0])
	}
}

// cmdAlone watches from now on, until the script ends, that there is never more than one QEMU that has a file or device open:
//
//	alone FILE
func cmdAlone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: alone FILE")
	}
	file, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	t, ok := ts.Value(running{}).(testing.TB)
	if !ok {
		ts.Fatalf("there is no test to fail")
	}
	stop, done := make(chan struct{}), make(chan struct{})
	ts.Defer(func() {
		close(stop)
		<-done
	})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			if ids := openers(file); len(ids) > 1 {
				t.Errorf("%s: it is open in the processes %s at the same time", args[0], ids)
				return
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
}

// openers returns the ids of the QEMUs that have a file or a block device open.
func openers(file os.FileInfo) []string {
	var ids []string
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, comm := range comms {
		if text, err := os.ReadFile(comm); err != nil || strings.TrimSpace(string(text)) != "qemu-system-x86" {
			continue
		}
		fds, _ := filepath.Glob(filepath.Join(filepath.Dir(comm), "fd", "*"))
		if slices.ContainsFunc(fds, func(fd string) bool {
			open, err := os.Stat(fd)
			return err == nil && (os.SameFile(open, file) || sameDevice(open, file))
		}) {
			ids = append(ids, filepath.Base(filepath.Dir(comm)))
		}
	}
	return ids
}

// sameDevice says that both are one block device: each pod has a file of its own for it.
func sameDevice(a, b os.FileInfo) bool {
	for _, f := range []os.FileInfo{a, b} {
		if f.Mode()&os.ModeType != os.ModeDevice {
			return false
		}
	}
	one, ok := a.Sys().(*syscall.Stat_t)
	other, ok2 := b.Sys().(*syscall.Stat_t)
	return ok && ok2 && one.Rdev == other.Rdev
}

// processesOf returns the ids of the processes with a name in pods. A pod's cgroup is named after its UID.
func processesOf(pods []string, name string) ([]string, error) {
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, comm := range comms {
		// A process that ends meanwhile is none.
		if text, err := os.ReadFile(comm); err != nil || strings.TrimSpace(string(text)) != name {
			continue
		}
		groups, err := os.ReadFile(filepath.Join(filepath.Dir(comm), "cgroup"))
		if err != nil {
			continue
		}
		for _, uid := range pods {
			if strings.Contains(string(groups), "pod"+uid) {
				ids = append(ids, filepath.Base(filepath.Dir(comm)))
			}
		}
	}
	return ids, nil
}
