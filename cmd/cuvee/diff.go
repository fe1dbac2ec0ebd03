package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/plan"
)

func newDiffCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "diff VM... | -f FILE",
		Short: "Compare what a VM is rendered to with what is in the cluster",
		Long: `Compare the objects that VMs are rendered to with those in the cluster, field by field: what waits to be applied, and what others have
changed. Only fields that are rendered, or were, are looked at. Values of Secrets are not shown. Nothing is written.

With -f the VMs are taken from files, as if they were applied. See "cuvee plan" for all VMs at once.

Exit codes: 0 there is no difference; 1 it could not be found out; 2 the command line is wrong; 3 there are differences;
4 a VM is not valid.`,
		Example: `  cuvee diff web
  cuvee diff web --site lab/
  cuvee diff -f vm.yaml`,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.diff(cmd, args) },
		ValidArgsFunction: f.completeVMs,
	}
	f.bind(cmd)
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "a file or directory with VMs, or - for standard input; may be repeated")
	f.bindOutput(cmd)
	return cmd
}

func (f *planFlags) diff(cmd *cobra.Command, names []string) error {
	if err := f.checkOutput(cmd); err != nil {
		return err
	}
	if (len(names) == 0) == (len(f.files) == 0) {
		return usage(cmd, errors.New("name VMs, or files with -f"))
	}
	e, err := f.engine(cmd)
	if err != nil {
		return err
	}
	vms, err := e.vms()
	if err != nil {
		return err
	}
	manifests, err := e.manifests(cmd, f.files, vms)
	if err != nil {
		return err
	}
	view, err := e.view(cmd.Context(), vms)
	if err != nil {
		return err
	}
	subjects := plan.Named(view, manifests[vms.kind().Kind]...)
	for _, name := range names {
		s, err := e.vm(cmd.Context(), view, name)
		if err != nil {
			return err
		}
		subjects = append(subjects, s)
	}
	p, err := plan.Make(cmd.Context(), view, vms.current, vms.candidate, subjects)
	if err != nil {
		return e.failed(err)
	}
	return f.show(cmd, e, p)
}

// vm finds a VM by its name.
func (e *engine) vm(ctx context.Context, view *controller.View, name string) (plan.Subject, error) {
	item := view.Resource(e.namespace, name)
	if item == nil {
		return plan.Subject{}, e.noVM(ctx, name)
	}
	return plan.Subject{Item: item}, nil
}
