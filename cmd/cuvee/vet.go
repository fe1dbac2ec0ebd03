package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

func newVetCommand() *cobra.Command {
	var f inputFlags
	cmd := &cobra.Command{
		Use:   "vet [-f] FILE...",
		Short: "Check VirtualMachines and Machines, and a site's templates, without printing what they become",
		Long: `Check VirtualMachines and Machines against the contract, and render them, without printing the result. Each fault is one line:
where it is, which field, what is wrong, what is allowed. All faults of all files are found in one run.

With --site, --config or both the templates are checked as the manager does before it takes them: all packages are compiled, and
the cases that come with the templates, and those in the site's own directory cases/, are rendered. Files need not be named then.`,
		Example: `  cuvee vet vm.yaml
  cuvee vet --site lab/
  cuvee vet --site lab/ --config lab/config.yaml vms/
  cat vm.yaml | cuvee vet -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.files = append(f.files, args...)
			return f.vet(cmd)
		},
	}
	f.bind(cmd.Flags())
	f.bindConfig(cmd.Flags())
	return cmd
}

func (f *inputFlags) vet(cmd *cobra.Command) error {
	if f.site != "" || f.config != "" {
		notes := cmd.ErrOrStderr()
		if len(f.files) > 0 {
			// They are said when the files are rendered.
			notes = io.Discard
		}
		if err := f.vetSite(notes); err != nil {
			return err
		}
		if len(f.files) == 0 {
			return nil
		}
	}
	all, err := f.renderAll(cmd)
	if err != nil {
		return err
	}
	for _, r := range all {
		writeNotices(cmd.ErrOrStderr(), r)
	}
	return nil
}

// vetSite does what the manager does with a site's directory, and with its configuration.
func (f *inputFlags) vetSite(notes io.Writer) error {
	// What is wrong with the templates of VMs is said in the same words as everywhere.
	if _, err := f.templates(notes, vmTemplates); err != nil {
		return err
	}
	files, err := templateset.ReadKept(cuvee.Files, nil)
	if f.site != "" {
		files, err = templateset.ReadDirectory(cuvee.Files, f.site)
	}
	if err != nil {
		return fmt.Errorf("check site %s: %w", f.site, err)
	}
	config, err := f.managerConfigFlags.read(io.Discard)
	if err != nil {
		return err
	}
	if config != nil {
		files = files.WithSettings(f.config, config.Settings)
	}
	if err := files.Vet(); err != nil {
		return fmt.Errorf("check site %s: %w", f.site, err)
	}
	return nil
}
