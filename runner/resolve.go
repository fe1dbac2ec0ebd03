package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cuvee-vm/cuvee/runner/firmware"
)

// ErrNoAlternative says that no alternative of a choice works where the VM runs.
var ErrNoAlternative = errors.New("no alternative works")

// resolve makes the choices that the config leaves to the place where the VM runs.
func (v *vm) resolve(ctx context.Context) error {
	var err error
	if v.kept, err = readKept(v.cfg.Boot.DataDir); err != nil {
		return err
	}
	v.values.Resolve = make(map[string]map[string]string)
	for _, name := range slices.Sorted(maps.Keys(v.cfg.Resolve)) {
		chosen, err := v.choose(ctx, name, v.cfg.Resolve[name])
		if err != nil {
			return fmt.Errorf("resolve %s: %w", name, err)
		}
		v.values.Resolve[name] = chosen
		v.log.Debug("resolved", "name", name, "values", chosen)
	}
	return nil
}

// choose returns the first alternative that works, or before that the kept one.
func (v *vm) choose(ctx context.Context, name string, c Choice) (map[string]string, error) {
	if len(c.Alternatives) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrNoAlternative)
	}
	switch c.Kind {
	case KindUUID:
		return v.chooseUUID(c)
	case KindDiskImage:
		return v.overlays[name], nil
	}
	old, isKept := v.kept.get(name, c)
	if isKept {
		err := v.try(ctx, c, old)
		if err == nil {
			return old.Values, nil
		}
		v.log.Warn("kept choice does not work any more, the guest's hardware may change",
			"name", name, "values", old.Values, "error", err)
	}
	var faults []error
	for _, a := range c.Alternatives {
		values, err := v.found(c, a)
		if err == nil {
			err = v.try(ctx, c, keptChoice{Values: values})
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if c.Keep {
			v.kept.put(name, keptChoice{From: a, Values: values})
		}
		return values, nil
	}
	return nil, fmt.Errorf("%w: %w", ErrNoAlternative, errors.Join(faults...))
}

// found returns the values of an alternative, with those that have to be looked for.
func (v *vm) found(c Choice, a map[string]string) (map[string]string, error) {
	if c.Kind != KindFirmware || a[descriptorKey] == "" {
		return a, nil
	}
	files, err := firmware.Find(firmware.Directories, firmware.Query{
		Interface: a[descriptorKey], Architecture: a["architecture"], Machine: a["machine"],
		With: strings.Fields(a["with"]), Without: strings.Fields(a["without"]),
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"code": files.Code, "vars": files.Vars}, nil
}

func (v *vm) chooseUUID(c Choice) (map[string]string, error) {
	chosen := maps.Clone(c.Alternatives[0])
	if !c.Keep {
		return chosen, nil
	}
	uuid, err := keepUUID(v.cfg.Boot.DataDir, chosen["uuid"])
	if err != nil {
		return nil, fmt.Errorf("keep UUID: %w", err)
	}
	chosen["uuid"] = uuid
	return chosen, nil
}

// try returns why an alternative does not work.
func (v *vm) try(ctx context.Context, c Choice, choice keptChoice) error {
	switch c.Kind {
	case KindAccelerator:
		return v.tryAccelerator(ctx, choice.Values)
	case KindMachine:
		// QEMU itself says so if it lacks the only machine type that there is.
		if choice.QEMU == v.programID() || choice.From == nil && len(c.Alternatives) == 1 {
			return nil
		}
		return v.tryMachine(ctx, choice.Values["type"])
	case KindFirmware:
		if err := tryFiles(choice.Values["code"], choice.Values["vars"]); err != nil {
			return err
		}
		return v.fitsVars(choice.Values["vars"])
	case KindAIO:
		return tryAIO(c.Path, choice.Values["aio"], choice.Values["direct"] == "on")
	default:
		return fmt.Errorf("unknown kind %q", c.Kind)
	}
}

func (v *vm) tryAccelerator(ctx context.Context, values map[string]string) error {
	switch {
	case values["name"] != "kvm":
		return nil
	case v.opts.ProbeKVM != nil && values["probe"] != "off":
		return v.opts.ProbeKVM(ctx)
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// tryFiles returns an error for a path that there is no file at.
func tryFiles(paths ...string) error {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}
