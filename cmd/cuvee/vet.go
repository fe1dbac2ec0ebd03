package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

func newVetCommand() *cobra.Command {
	var f inputFlags
	cmd := &cobra.Command{
		Use:   "vet [-f] FILE...",
		Short: "Check VirtualMachines, and a site's templates, without printing what they become",
		Long: `Check VirtualMachines against the contract, and render them, without printing the result. Each fault is one line:
where it is, which field, what is wrong, what is allowed. All faults of all files are found in one run.

With --site the site's templates are checked as the manager does before it takes them: all its packages are compiled, and
the cases that come with the templates, and those in the site's own directory cases/, are rendered. Files need not be named then.`,
		Example: `  cuvee vet vm.yaml
  cuvee vet --site lab/
  cuvee vet --site lab/ vms/
  cat vm.yaml | cuvee vet -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.files = append(f.files, args...)
			return f.vet(cmd)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

func (f *inputFlags) vet(cmd *cobra.Command) error {
	if f.site != "" {
		if err := f.vetSite(); err != nil {
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

// vetSite does what the manager does with a site's directory.
func (f *inputFlags) vetSite() error {
	// What is wrong with the templates of VMs is said in the same words as everywhere.
	if _, err := f.templates(vmTemplates); err != nil {
		return err
	}
	if err := templateset.Vet(cuvee.Files, f.site); err != nil {
		return fmt.Errorf("check site %s: %w", f.site, err)
	}
	return nil
}
