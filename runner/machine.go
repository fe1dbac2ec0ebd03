package runner

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
)

// programID identifies the QEMU that is going to be started, so that a machine type is only looked
// up again when QEMU was replaced.
func (v *vm) programID() string {
	info, err := os.Stat(v.program)
	if err != nil {
		return v.program
	}
	return fmt.Sprintf("%s %d %d", v.program, info.Size(), info.ModTime().UnixNano())
}

// tryMachine asks QEMU for its machine types, which takes as long as a start of QEMU.
func (v *vm) tryMachine(ctx context.Context, machine string) error {
	if v.machines == nil {
		out, err := exec.CommandContext(ctx, v.program, "-machine", "help").Output()
		if err != nil {
			return fmt.Errorf("list machine types of %s: %w", v.program, err)
		}
		v.machines = make(map[string]bool)
		for line := range strings.Lines(string(out)) {
			if name, _, ok := strings.Cut(line, " "); ok {
				v.machines[name] = true
			}
		}
	}
	if !v.machines[machine] {
		return fmt.Errorf("%s has no machine type %s", v.program, machine)
	}
	return nil
}

// keepChoices keeps the choices of this start, now that the guest runs with them. An alias of a machine
// type is kept as what QEMU made of it.
func (v *vm) keepChoices(ctx context.Context) {
	for name, c := range v.cfg.Resolve {
		choice, ok := v.kept.get(name, c)
		if c.Kind != KindMachine || !ok || choice.QEMU == v.programID() {
			continue
		}
		var class string
		args := map[string]string{"path": "/machine", "property": "type"}
		if err := v.monitor.Execute(ctx, "qom-get", args, &class); err != nil {
			// Then the next start learns it. Short-lived guests end before they are asked.
			v.log.Debug("cannot learn the machine type", "error", err)
			continue
		}
		choice.Values = maps.Clone(choice.Values)
		choice.Values["type"] = strings.TrimSuffix(class, "-machine")
		choice.QEMU = v.programID()
		v.kept.put(name, choice)
	}
	if err := v.kept.save(); err != nil {
		v.log.Warn("choices are not kept, another start may choose otherwise", "error", err)
	}
}
