package cluster

import (
	"encoding/json"

	"github.com/cuvee-vm/cuvee/runner"
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
	}
	if b := s.Booted; b != nil {
		out.Booted = &booted{Revision: b.Revision, Why: b.Why}
	}
	return out
}
