package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/cuvee-vm/cuvee/controller/managerconfig"
)

// managerConfigFlags name a configuration of a manager, whose settings are laid over the templates as the manager does.
type managerConfigFlags struct {
	config string
}

func (f *managerConfigFlags) bind(flags *pflag.FlagSet, without string) {
	bindText(flags, &f.config, "config", "a `FILE` with the manager's configuration, in the form of VM-Operator's config.yaml; "+without)
}

// read reads the file; nil if none is named. What has no effect is said in a note.
func (f *managerConfigFlags) read(notes io.Writer) (*managerconfig.Config, error) {
	if f.config == "" {
		return nil, nil
	}
	text, err := managerconfig.ReadFile(f.config)
	if err != nil {
		return nil, fmt.Errorf("read the manager's configuration: %w", err)
	}
	config, err := managerconfig.Parse(f.config, text)
	if err != nil {
		return nil, err
	}
	if len(config.Ineffective) > 0 {
		fmt.Fprintf(notes, "note: %s: these keys have no effect here: %s\n", f.config, strings.Join(config.Ineffective, ", "))
	}
	return config, nil
}
