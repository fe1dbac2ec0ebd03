package qmp_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// startQEMU starts a QEMU without a machine and returns the monitor that it inherited the other end of.
func startQEMU(t *testing.T) *qmp.Monitor {
	t.Helper()
	ours, theirs := socketPair(t)
	type filer interface{ File() (*os.File, error) }
	file, err := theirs.(filer).File()
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	cmd := exec.Command("qemu-system-x86_64", "-S", "-machine", "none", "-nodefaults", "-display", "none",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control")
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	m := qmp.New(ours)
	t.Cleanup(func() {
		m.Disconnect()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestQEMU(t *testing.T) {
	m := startQEMU(t)
	if m.Version().QEMU.Major < 7 {
		t.Errorf("version is %s", m.Version())
	}
	var schema []json.RawMessage
	if err := m.Execute(t.Context(), "query-qmp-schema", nil, &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema) < 100 {
		t.Errorf("schema has %d entries only", len(schema))
	}
	events := m.Subscribe(10)
	if err := m.Execute(t.Context(), "cont", nil, nil); err != nil {
		t.Fatal(err)
	}
	if e := <-events.Events(); e.Event != "RESUME" {
		t.Errorf("event is %s, want RESUME", e.Event)
	}
	err := m.Execute(t.Context(), "no-such-command", nil, nil)
	if err == nil || err.Error() != "QMP no-such-command: The command no-such-command has not been found (CommandNotFound)" {
		t.Errorf("error is %v", err)
	}
	if err := m.Execute(t.Context(), "quit", nil, nil); err != nil {
		t.Error(err)
	}
	<-m.Done()
}
