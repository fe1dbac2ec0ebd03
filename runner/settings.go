package runner

import (
	"maps"
	"slices"
	"strings"
)

// path is where a field is below live.
type path struct {
	// field is the name of the top level, id the key of its entry, part the field in that; the last two may be empty.
	field, id, part string
}

func (p path) String() string {
	return strings.TrimRight(strings.Join([]string{p.field, p.id, p.part}, "."), ".")
}

// paths returns the fields that a VM is brought to, in the order in which that is done. PowerdownTimeout and
// GuestShutdownStops are not among them, as they are read when they are needed.
func (l *Live) paths() []path {
	paths := []path{{field: "currentCpus"}, {field: "currentRam"}}
	for _, id := range slices.Sorted(maps.Keys(l.Memory)) {
		paths = append(paths, path{field: "memory", id: id})
	}
	for _, id := range slices.Sorted(maps.Keys(l.CDROMs)) {
		paths = append(paths, path{field: "cdroms", id: id})
	}
	for _, id := range slices.Sorted(maps.Keys(l.Disks)) {
		paths = append(paths, path{field: "disks", id: id, part: "size"}, path{field: "disks", id: id, part: "limits"})
	}
	for _, id := range slices.Sorted(maps.Keys(l.Networks)) {
		paths = append(paths, path{field: "networks", id: id})
	}
	return append(paths, path{field: "display"}, path{field: "loggedInUser"}, path{field: "reset"})
}

// newSetting returns what brings this VM to a field.
func (v *vm) newSetting(p path) setting {
	switch p.field {
	case "currentCpus":
		return &cpus{monitor: v.monitor, report: v.report}
	case "currentRam":
		return &balloon{monitor: v.monitor, report: v.report}
	case "memory":
		return &memory{monitor: v.monitor, report: v.report, id: p.id}
	case "cdroms":
		return &cdrom{monitor: v.monitor, id: p.id}
	case "disks":
		if p.part == "limits" {
			return &diskLimits{monitor: v.monitor, id: p.id}
		}
		return &diskSize{monitor: v.monitor, log: v.log, every: v.pace.disks, id: p.id}
	case "networks":
		return &network{monitor: v.monitor, id: p.id, up: true}
	case "display":
		return &display{monitor: v.monitor, report: v.report, every: v.pace.files}
	case "loggedInUser":
		return &user{login: v.login}
	default:
		return &reset{monitor: v.monitor, report: v.report, done: v.cfg.Live.Reset}
	}
}
