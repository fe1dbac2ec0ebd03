package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
		Use:   "plan [--site DIRECTORY] [--config FILE] [-f FILE]",
		Short: "Show what a site's templates, or changed VMs, would change in a cluster",
		Long: `Show what would be written to a cluster, object by object and field by field, who needs a restart, and which VMs would not be valid any
more: with a site's templates or a manager's configuration for every VM of a namespace or of the cluster, or for the VMs of some files.
Further kinds that the templates have are planned for as VMs are, if the cluster knows them. Nothing is written.

What is there is compared with what would be rendered, so changes that wait, and what others have changed, are shown, too. Values of
Secrets are not.

Exit codes: 0 nothing would change; 1 it could not be found out; 2 the command line is wrong; 3 something would change;
4 a VM would become invalid.`,
		Example: `  cuvee plan --site lab/
  cuvee plan --site lab/ --config lab/config.yaml
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
	limitLoading()
	e, err := f.engine(cmd, namespaces...)
	if err != nil {
		return err
	}
	manifests, err := e.manifests(cmd, f.files, e.pairs()...)
	if err != nil {
		return err
	}
	if !f.allNamespaces {
		for _, m := range slices.Concat(slices.Collect(maps.Values(manifests))...) {
			if m.GetNamespace() != e.namespace {
				return fmt.Errorf("%s is in the namespace %s, and the plan is for %s; -A is for all", m.GetName(), m.GetNamespace(), e.namespace)
			}
		}
	}
	var plans []*plan.Plan
	var unknown error
	for _, kind := range e.pairs() {
		of := manifests[kind.kind().Kind]
		// Of files alone nothing else is looked at.
		if len(manifests) > 0 && len(of) == 0 && !f.changes() {
			continue
		}
		p, err := f.plan(cmd.Context(), e, kind, of)
		if errors.Is(err, errNoKind) && len(of) == 0 {
			unknown = err
			continue
		}
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return unknown
	}
	return f.show(cmd, e, plan.Join(plans...))
}

// plan plans for the custom resources of a kind, with manifests in the place of theirs.
func (f *planFlags) plan(ctx context.Context, e *engine, kind pair, manifests []*unstructured.Unstructured) (*plan.Plan, error) {
	view, err := e.view(ctx, kind)
	if err != nil {
		return nil, err
	}
	// The current templates are needed for a VM that becomes invalid only. The kinds are planned for one after the other.
	if kind.current.Set != kind.candidate.Set {
		kind.current.Set.Rest()
	}
	defer kind.candidate.Set.Rest()
	limitPlanning()
	subjects := plan.Subjects(view, manifests...)
	if len(manifests) > 0 && !f.changes() {
		subjects = plan.Named(view, manifests...)
	}
	p, err := plan.Make(ctx, view, kind.current, kind.candidate, subjects)
	return p, e.failed(err)
}

func (f *planFlags) checkOutput(cmd *cobra.Command) error {
	if f.output != "text" && f.output != "json" {
		return usage(cmd, fmt.Errorf("unknown output %q, want text or json", f.output))
	}
	return nil
}

// show prints a plan. Its outcome is the exit code.
func (f *planFlags) show(cmd *cobra.Command, e *engine, p *plan.Plan) error {
	if err := f.write(cmd.OutOrStdout(), p); err != nil {
		return err
	}
	if f.changes() {
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
