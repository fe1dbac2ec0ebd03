package main

import (
	"github.com/spf13/cobra"
)

func newVetCommand() *cobra.Command {
	var f inputFlags
	cmd := &cobra.Command{
		Use:   "vet [-f] FILE...",
		Short: "Check VirtualMachines, and a site's templates, without printing what they become",
		Long: `Check VirtualMachines against the contract, and render them, without printing the result. Each fault is one line:
where it is, which field, what is wrong, what is allowed. All faults of all files are found in one run.`,
		Example: `  cuvee vet vm.yaml
  cuvee vet --site lab/ vms/
  cat vm.yaml | cuvee vet -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.files = append(f.files, args...)
			all, err := f.renderAll(cmd)
			if err != nil {
				return err
			}
			for _, r := range all {
				writeNotices(cmd.ErrOrStderr(), r)
			}
			return nil
		},
	}
	f.bind(cmd.Flags())
	return cmd
}
