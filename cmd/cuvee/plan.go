package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/plan"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

// Exit codes of plan and diff, beside those of all commands.
const (
	exitChanges = 3
	exitInvalid = 4
)

type planFlags struct {
	engineFlags
	files         []string
	allNamespaces bool
	output        string
}

func newPlanCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [--site DIRECTORY] [-f FILE]",
		Short: "Show what a site's templates, or changed VMs, would change in a cluster",
		Long: `Show what would be written to a cluster, object by object and field by field, who needs a restart, and which VMs would not be valid any
more: with a site's templates for every VM of a namespace or of the cluster, or for the VMs of some files. Nothing is written.

What is there is compared with what would be rendered, so changes that wait, and what others have changed, are shown, too. Values of
Secrets are not.

Exit codes: 0 nothing would change; 1 it could not be found out; 2 the command line is wrong; 3 something would change;
4 a VM would become invalid.`,
		Example: `  cuvee plan --site lab/
  cuvee plan --site lab/ -A -o json
  cuvee plan -f vm.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "a file or directory with VMs to plan for, as if they were applied, or - for standard input; may be repeated")
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "the VMs of all namespaces")
	f.bindOutput(cmd)
	return cmd
}

func (f *planFlags) bindOutput(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	complete(cmd, "output", "text", "json")
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if err := f.checkOutput(cmd); err != nil {
		return err
	}
	var namespaces []string
	if f.allNamespaces {
		namespaces = []string{}
	}
	e, err := f.engine(cmd, namespaces...)
	if err != nil {
		return err
	}
	manifests, err := e.manifests(cmd, f.files)
	if err != nil {
		return err
	}
	if !f.allNamespaces {
		for _, m := range manifests {
			if m.GetNamespace() != e.namespace {
				return fmt.Errorf("%s is in the namespace %s, and the plan is for %s; -A is for all", m.GetName(), m.GetNamespace(), e.namespace)
			}
		}
	}
	view, err := e.view(cmd.Context())
	if err != nil {
		return err
	}
	var subjects []plan.Subject
	if len(manifests) > 0 && f.site == "" {
		subjects, err = plan.Named(view, manifests...)
	} else {
		subjects, err = plan.Subjects(view, manifests...)
	}
	if err != nil {
		return err
	}
	return f.show(cmd, e, view, subjects)
}

func (f *planFlags) checkOutput(cmd *cobra.Command) error {
	if f.output != "text" && f.output != "json" {
		return usage(cmd, fmt.Errorf("unknown output %q, want text or json", f.output))
	}
	return nil
}

// show makes the plan and prints it. Its outcome is the exit code.
func (f *planFlags) show(cmd *cobra.Command, e *engine, view *controller.View, subjects []plan.Subject) error {
	p, err := plan.Make(cmd.Context(), view, vmPackage(e.current), vmPackage(e.candidate), subjects)
	if err != nil {
		return e.failed(err)
	}
	if err := f.write(cmd.OutOrStdout(), p); err != nil {
		return err
	}
	if f.site != "" {
		e.refusal(cmd.ErrOrStderr(), p)
	}
	switch {
	case p.Summary.Invalid > 0:
		return exitError{code: exitInvalid}
	case p.Summary.Changes > 0:
		return exitError{code: exitChanges}
	}
	return nil
}

func (f *planFlags) write(out io.Writer, p *plan.Plan) error {
	if f.output == "text" {
		return p.Write(out, f.allNamespaces)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(p)
}

// refusal says whether the manager would take the site's templates.
func (e *engine) refusal(notes io.Writer, p *plan.Plan) {
	for _, r := range p.Resources {
		object := r.Kind + " " + r.Namespace + "/" + r.Name
		if r.State == plan.Invalid && !r.New && !e.candidate.Accepts(object) {
			fmt.Fprintf(notes, "note: a manager would refuse these templates, as %s would not be valid any more; the file %s of the site can accept that\n", object, templateset.AcceptFile)
			return
		}
	}
}
