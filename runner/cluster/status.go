package cluster

import (
	"encoding/json"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// status is the runner's part of a VirtualMachine's status. Which fields are the runner's, and which the manager's, is
// said in docs/status.md.
type status struct {
	CPUs                  int                          `json:"cpus"`
	RAM                   string                       `json:"ram"`
	DisplayPasswordSerial int64                        `json:"displayPasswordSerial"`
	RunnerVersion         string                       `json:"runnerVersion"`
	Booted                *booted                      `json:"booted,omitempty"`
	Resolved              map[string]map[string]string `json:"resolved,omitempty"`
	ConsoleClient         string                       `json:"consoleClient"`
	LoggedInUser          string                       `json:"loggedInUser,omitempty"`
	Guest                 *guest                       `json:"guest,omitempty"`
	OSInfo                *guestagent.OS               `json:"osinfo,omitempty"`
	Conditions            []condition                  `json:"conditions"`
}

type booted struct {
	Revision string                     `json:"revision"`
	Why      map[string]json.RawMessage `json:"why,omitempty"`
}

// newStatus is the part of a status that needs no memory: all but the conditions.
func newStatus(s runner.Status, version string) status {
	out := status{
		CPUs:                  s.CPUs,
		RAM:                   quantity(s.RAM),
		DisplayPasswordSerial: s.DisplayPasswordSerial,
		RunnerVersion:         version,
		Resolved:              s.Resolved,
		ConsoleClient:         s.ConsoleClient,
		LoggedInUser:          s.Login.User,
	}
	if b := s.Booted; b != nil {
		out.Booted = &booted{Revision: b.Revision, Why: b.Why}
	}
	if s.Guest != nil {
		out.Guest = newGuest(s.Guest)
		if os := s.Guest.OS; os != (guestagent.OS{}) {
			out.OSInfo = &os
		}
	}
	return out
}
