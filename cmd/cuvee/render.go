package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// vmTemplates is the directory of the templates of VirtualMachines.
const vmTemplates = "templates/vm"

type renderFlags struct {
	inputFlags
	output string
}

func newRenderCommand() *cobra.Command {
	var f renderFlags
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the manifests that VirtualMachines and Machines become",
		Long: `Print the manifests that VirtualMachines and Machines become, as they would be applied.

The files may hold other objects, too: a Secret, PersistentVolumeClaims, Pods. They stand for what is in the cluster,
where that matters for the result. What only a cluster can tell is shown as a text in angle brackets. Conditions that a
VM would have, and that call for attention, are printed to standard error.

If any input is refused nothing is printed but what is wrong with it, one line a fault.`,
		Example: `  cuvee render -f vm.yaml | kubectl apply -f -
  cuvee render -f vm.yaml --site lab/
  cuvee render -f vm.yaml -o qemu
  kubectl get vm web -o yaml | cuvee render -f -`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd.Flags())
	f.bindConfig(cmd.Flags())
	cmd.Flags().StringVarP(&f.output, "output", "o", "yaml", "yaml, json (one List), or qemu (the command line that QEMU gets)")
	complete(cmd, "output", "yaml", "json", "qemu")
	return cmd
}

// complete offers fixed words for a flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // The flag is not defined: a mistake in this program.
	}
}

// rendered is one VM and what became of it.
type rendered struct {
	doc    render.Document
	result *render.Result
}

func (f *renderFlags) run(cmd *cobra.Command) error {
	write, ok := map[string]func(io.Writer, []rendered) error{"yaml": writeYAML, "json": writeJSON, "qemu": writeQEMU}[f.output]
	if !ok {
		return usage(cmd, fmt.Errorf("unknown output %q, want yaml, json or qemu", f.output))
	}
	all, err := f.renderAll(cmd)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := write(&out, all); err != nil {
		return err
	}
	for _, r := range all {
		writeNotices(cmd.ErrOrStderr(), r)
	}
	_, err = cmd.OutOrStdout().Write(out.Bytes())
	return err
}

// renderAll renders every custom resource of the files, and collects the faults of all.
func (f *inputFlags) renderAll(cmd *cobra.Command) ([]rendered, error) {
	docs, err := f.read(cmd)
	if err != nil {
		return nil, err
	}
	packages, err := f.packages(docs)
	if err != nil {
		return nil, err
	}
	var all []rendered
	var faults render.Faults
	for _, pkg := range packages {
		some, err := f.renderWith(cmd, pkg, docs)
		var found render.Faults
		if err != nil && !errors.As(err, &found) {
			return nil, err
		}
		all, faults = append(all, some...), append(faults, found...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// renderWith renders those that a template package is for.
func (f *inputFlags) renderWith(cmd *cobra.Command, pkg string, docs []render.Document) ([]rendered, error) {
	set, err := f.templates(cmd.ErrOrStderr(), pkg)
	if err != nil {
		return nil, err
	}
	inputs, others, err := f.split(cmd, set, docs)
	if err != nil {
		return nil, err
	}
	var all []rendered
	var faults render.Faults
	for _, d := range inputs {
		r, err := set.RenderObserving(render.Input{Document: d, Engine: &render.Engine{ResourceVersion: resourceVersion(d)}}, others)
		var found render.Faults
		if errors.As(err, &found) {
			faults = append(faults, found...)
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, rendered{doc: d, result: r})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// resourceVersion is that of an object that was read from a cluster.
func resourceVersion(d render.Document) string {
	metadata, _ := d.Object["metadata"].(map[string]any)
	v, _ := metadata["resourceVersion"].(string)
	return v
}

func writeYAML(w io.Writer, all []rendered) error {
	first := true
	for _, r := range all {
		for _, o := range r.result.Objects {
			text, err := o.YAML()
			if err != nil {
				return fmt.Errorf("write %s: %w", o.Key, err)
			}
			if !first {
				fmt.Fprintln(w, "---")
			}
			first = false
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(w io.Writer, all []rendered) error {
	list := struct {
		APIVersion string            `json:"apiVersion"`
		Items      []json.RawMessage `json:"items"`
		Kind       string            `json:"kind"`
	}{"v1", nil, "List"}
	for _, r := range all {
		for _, o := range r.result.Objects {
			list.Items = append(list.Items, o.JSON)
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

func writeQEMU(w io.Writer, all []rendered) error {
	for i, r := range all {
		cfg, err := runnerConfig(r.result)
		if err != nil {
			return err
		}
		argv, err := runner.CommandLine(cfg.Boot, runner.Placeholders(cfg))
		if err != nil {
			return fmt.Errorf("write QEMU's command line: %w", err)
		}
		if len(all) > 1 {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "# %s\n", cfg.Boot.Name)
		}
		writeCommand(w, cfg.Boot.Binaries[0], argv)
	}
	return nil
}

// writeNotices prints the conditions that are not as one would wish.
func writeNotices(w io.Writer, r rendered) {
	var types []string
	for t, c := range r.result.Conditions {
		if c.Status != "True" {
			types = append(types, t)
		}
	}
	sort.Strings(types)
	metadata, _ := r.doc.Object["metadata"].(map[string]any)
	for _, t := range types {
		c := r.result.Conditions[t]
		fmt.Fprintf(w, "note: %v: %s is %s (%s): %s\n", metadata["name"], t, c.Status, c.Reason, c.Message)
	}
}
