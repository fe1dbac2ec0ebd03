package runner

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// The port of an agent is found in arguments as the templates make them, and its changes are told from others'.
func TestAgentPort(t *testing.T) {
	var b Boot
	err := json.Unmarshal([]byte(`{"args": [
		{"keys": {"backend": "socket", "fd": {"fd": "qmp"}, "id": "monitor"}, "option": "chardev"},
		{"keys": {"backend": "socket", "fd": {"fd": "guest-agent"}, "id": "guestAgent"}, "option": "chardev"},
		{"keys": {"backend": "spicevmc", "id": "vdagent"}, "option": "chardev"},
		{"json": {"chardev": "vdagent", "driver": "virtserialport", "id": "vdagent"}, "option": "device"},
		{"json": {"chardev": "guestAgent", "driver": "virtserialport", "id": "agentPort"}, "option": "device"}
	]}`), &b)
	if err != nil {
		t.Fatal(err)
	}
	port := b.agentPort(FDGuestAgent)
	if want := (agentPort{chardev: "guestAgent", device: "agentPort"}); port != want {
		t.Errorf("port is %+v, want %+v", port, want)
	}
	if none := b.agentPort(FDVmopAgent); none != (agentPort{}) {
		t.Errorf("port of an agent without one is %+v", none)
	}
	change := func(name, id string, open bool) [2]bool {
		isOpen, ours := port.change(qmp.Event{Event: name, Data: map[string]any{"id": id, "open": open}})
		return [2]bool{ours && isOpen, ours}
	}
	got := [][2]bool{
		change("VSERPORT_CHANGE", "agentPort", true), change("VSERPORT_CHANGE", "agentPort", false),
		change("VSERPORT_CHANGE", "vdagent", true), change("RESET", "agentPort", true),
	}
	if diff := cmp.Diff([][2]bool{{true, true}, {false, true}, {false, false}, {false, false}}, got); diff != "" {
		t.Errorf("open and ours (-want +got):\n%s", diff)
	}
}
