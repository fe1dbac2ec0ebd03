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
	Handled               *handled                     `json:"handled,omitempty"`
	ConsoleClient         string                       `json:"consoleClient"`
	LoggedInUser          string                       `json:"loggedInUser,omitempty"`
	Guest                 *guest                       `json:"guest,omitempty"`
	OSInfo                *guestagent.OS               `json:"osinfo,omitempty"`
	Imports               []importing                  `json:"imports,omitempty"`
	Contents              []contents                   `json:"contents,omitempty"`
	Conditions            []condition                  `json:"conditions"`
}

// importing is a disk that is being filled, or could not be.
type importing struct {
	Disk           string `json:"disk"`
	State          string `json:"state"`
	Source         string `json:"source"`
	Percent        *int   `json:"percent,omitempty"`
	Bytes          int64  `json:"bytes,omitempty"`
	TotalBytes     int64  `json:"totalBytes,omitempty"`
	BytesPerSecond int64  `json:"bytesPerSecond,omitempty"`
	Message        string `json:"message,omitempty"`
}

// contents is a disk of which it is known what is in it.
type contents struct {
	Disk   string `json:"disk"`
	Result string `json:"result"`
	Pod    string `json:"pod,omitempty"`
}

type booted struct {
	Revision string                     `json:"revision"`
	Why      map[string]json.RawMessage `json:"why,omitempty"`
}

// handled are the requests that the runner answers. Others, such as a restart, are the manager's, which has fields of its own beside this one.
type handled struct {
	Reset string `json:"reset"`
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
	for _, i := range s.Imports {
		if i.Done() {
			out.Contents = append(out.Contents, contents{Disk: i.Disk, Result: string(i.State)})
			continue
		}
		out.Imports = append(out.Imports, newImporting(i))
	}
	if s.Reset != "" {
		out.Handled = &handled{Reset: s.Reset}
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

func newImporting(i runner.Import) importing {
	out := importing{
		Disk: i.Disk, State: string(i.State), Source: cut(i.Source, maxNote), Bytes: i.Bytes, TotalBytes: i.Total, BytesPerSecond: i.Rate,
		Message: cut(i.Message, maxNote),
	}
	if p := i.Percent(); p >= 0 {
		out.Percent = &p
	}
	return out
}
