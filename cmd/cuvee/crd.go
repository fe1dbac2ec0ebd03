package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render/crd"
)

func newCRDCommand() *cobra.Command {
	var dir, group string
	cmd := &cobra.Command{
		Use:   "crd",
		Short: "Print the CustomResourceDefinitions",
		Long: `Print the CustomResourceDefinitions of Cuvee's kinds: that of VirtualMachine, or those of Machine and
NetworkConfiguration, which are in the group vitistack.io. They are made from the contracts in schema/, so that the API
server refuses what "cuvee vet" refuses.`,
		Example: `  cuvee crd | kubectl apply --server-side -f -
  cuvee crd --group vitistack.io | kubectl apply --server-side -f -
  cuvee crd -o kustomize/crd`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kinds, err := crd.All(cuvee.Files)
			if err != nil {
				return err
			}
			kinds = slices.DeleteFunc(kinds, func(k crd.Kind) bool { return k.Group != group })
			if len(kinds) == 0 {
				return fmt.Errorf("there is no kind of the group %s", group)
			}
			for i, k := range kinds {
				text, err := k.YAML()
				if err != nil {
					return err
				}
				if dir != "" {
					if err := os.WriteFile(filepath.Join(dir, k.FileName()), text, 0o644); err != nil {
						return fmt.Errorf("write %s: %w", k.Name(), err)
					}
					continue
				}
				if i > 0 {
					text = append([]byte("---\n"), text...)
				}
				if _, err := cmd.OutOrStdout().Write(text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&group, "group", "vmoperator.jdrupes.org", "the API group of the kinds")
	cmd.Flags().StringVarP(&dir, "output-dir", "o", "", "write a file for each kind into this directory instead")
	return cmd
}
