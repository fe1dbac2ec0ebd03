package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// kindSuffix is appended to the path of the firmware's variables for the file that remembers their kind.
const kindSuffix = ".kind"

// makeFirmwareVars copies the template of the firmware's variables if there are none, or if they are those of another kind
// of firmware. Variables whose kind is not remembered were made by VM-Operator, and stay.
func (v *vm) makeFirmwareVars() error {
	f := v.cfg.Boot.Firmware
	if f == nil {
		return nil
	}
	template := v.values.Resolve[f.Choice]["vars"]
	if template == "" {
		return nil
	}
	there, kind, err := f.current()
	if err != nil {
		return fmt.Errorf("read firmware variables: %w", err)
	}
	if there && kind == f.Kind {
		return nil
	}
	if !there || kind != "" {
		if there {
			v.log.Warn("firmware changed, its variables are made anew", "from", kind, "to", f.Kind)
		}
		data, err := os.ReadFile(template)
		if err != nil {
			return fmt.Errorf("make firmware variables: %w", err)
		}
		if err := writeFile(f.Vars, data); err != nil {
			return fmt.Errorf("make firmware variables: %w", err)
		}
	}
	// The kind comes last: after a crash in between, the variables are only made once more.
	if err := writeFile(f.Vars+kindSuffix, []byte(f.Kind+"\n")); err != nil {
		return fmt.Errorf("remember kind of firmware: %w", err)
	}
	return v.cfg.Boot.User.own(f.Vars, f.Vars+kindSuffix)
}

// current reports whether there are variables, and of which kind, if that is remembered.
func (f *Firmware) current() (there bool, kind string, err error) {
	if _, err := os.Stat(f.Vars); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, "", nil
		}
		return false, "", err
	}
	data, err := os.ReadFile(f.Vars + kindSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, "", err
	}
	return true, strings.TrimSpace(string(data)), nil
}

// ErrVarsSize says that a firmware has flash of another size than the VM's variables were made for.
var ErrVarsSize = errors.New("the VM's firmware variables have another size")

// fitsVars returns an error if the VM has variables, of the wanted kind or from VM-Operator, that do not fit a firmware
// with this template: there are builds with 2 and with 4 MB of flash, and neither starts with the other's variables.
func (v *vm) fitsVars(template string) error {
	f := v.cfg.Boot.Firmware
	if f == nil {
		return nil
	}
	there, kind, err := f.current()
	if err != nil {
		return fmt.Errorf("read firmware variables: %w", err)
	}
	if !there || (kind != "" && kind != f.Kind) {
		return nil
	}
	vars, err := os.Stat(f.Vars)
	if err != nil {
		return err
	}
	made, err := os.Stat(template)
	if err != nil {
		return err
	}
	if vars.Size() != made.Size() {
		return fmt.Errorf("%w: %d bytes, those of %s are %d", ErrVarsSize, vars.Size(), template, made.Size())
	}
	return nil
}
