package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

type getFlags struct {
	clusterFlags
	output        string
	allNamespaces bool
	watch         bool
}

// getOutputs are the values of get's --output.
var getOutputs = []string{"wide", "json", "yaml", "name"}

func newGetCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get [VM...]",
		Short: "List the VMs of a cluster: whether they run, why not, and where",
		Long: `List the VMs of a namespace, or those that are named. READY and REASON are those of the condition Ready, while a disk is filled with how far that is, STATE is what the VM shall
be, CPUS and RAM are what the guest has, and ADDRESSES are those that the guest's agent tells.`,
		Example: `  cuvee get
  cuvee get web -o wide
  cuvee get -A --watch`,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
		ValidArgsFunction: f.completeVMs,
	}
	f.bind(cmd)
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "the VMs of all namespaces")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "wide (image, guest, message, too), json, yaml or name")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on with a line for each change, until Ctrl-C")
	completeFlag(cmd, "output", cobra.FixedCompletions(getOutputs, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *getFlags) run(cmd *cobra.Command, names []string) error {
	switch {
	case f.output != "" && !slices.Contains(getOutputs, f.output):
		return usage(cmd, fmt.Errorf("--output: %q is not valid, want %s", f.output, strings.Join(getOutputs, ", ")))
	case f.allNamespaces && len(names) > 0:
		return usage(cmd, errors.New("--all-namespaces and names exclude each other"))
	case f.watch && f.output != "" && f.output != "wide":
		return usage(cmd, errors.New("--watch goes with the table only"))
	}
	c, err := f.connect(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.allNamespaces {
		c.namespace = metav1.NamespaceAll
	}
	vms, version, err := c.list(cmd.Context(), names)
	if err != nil {
		return err
	}
	t := &vmTable{out: cmd.OutOrStdout(), wide: f.output == "wide", namespaces: f.allNamespaces}
	switch {
	case f.output == "json" || f.output == "yaml":
		return writeObjects(cmd.OutOrStdout(), f.output, vms, len(names) == 1)
	case f.output == "name":
		for _, vm := range vms {
			fmt.Fprintln(cmd.OutOrStdout(), vm.GetName())
		}
		return nil
	case len(vms) == 0 && !f.watch:
		if f.allNamespaces {
			fmt.Fprintln(cmd.ErrOrStderr(), "There are no VMs.")
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "There are no VMs in the namespace %s.\n", c.namespace)
		}
		return nil
	}
	t.write(vms)
	if f.watch {
		return t.follow(cmd.Context(), c, names, vms, version)
	}
	return nil
}

// writeObjects writes objects as they are in the API, without the bookkeeping of who owns which field.
func writeObjects(out io.Writer, format string, vms []unstructured.Unstructured, single bool) error {
	items := []any{}
	for _, vm := range vms {
		vm.SetManagedFields(nil)
		items = append(items, vm.Object)
	}
	var object any = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	if single {
		object = items[0]
	}
	data, err := yaml.Marshal(object)
	if err == nil && format == "json" {
		data, err = indentJSON(object)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}

// vmTable writes VMs in columns.
type vmTable struct {
	out        io.Writer
	wide       bool
	namespaces bool
	// headed says that the heads of the columns have been written.
	headed bool
	// widths are those of the columns: what comes later stands below what was written.
	widths []int
}

// columnGap is how many blanks are between columns.
const columnGap = 3

func (t *vmTable) write(vms []unstructured.Unstructured) {
	var rows [][]string
	if !t.headed {
		rows = append(rows, t.heads())
		t.headed = true
	}
	for _, vm := range vms {
		cells := t.cells(vm)
		for i, cell := range cells {
			// Of a guest's word nothing may look like another line, or move the cursor.
			cells[i] = oneLine(cell)
		}
		rows = append(rows, cells)
	}
	for _, row := range rows {
		t.widths = append(t.widths, make([]int, max(0, len(row)-len(t.widths)))...)
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row[:len(row)-1] {
			line.WriteString(cell + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+columnGap))
		}
		// Who does not read on has what was wanted.
		_, _ = fmt.Fprintln(t.out, line.String()+row[len(row)-1])
	}
}

func (t *vmTable) heads() []string {
	heads := []string{"NAME", "READY", "REASON", "STATE", "NODE", "CPUS", "RAM", "ADDRESSES", "AGE"}
	if t.namespaces {
		heads = slices.Insert(heads, 0, "NAMESPACE")
	}
	if t.wide {
		heads = append(heads, "RESTART", "GUEST", "IMAGE", "MESSAGE")
	}
	return heads
}

func (t *vmTable) cells(vm unstructured.Unstructured) []string {
	ready := conditionOf(vm.Object, "Ready")
	cells := []string{
		vm.GetName(), ready.status, reasonCell(vm), text(vm.Object, "spec", "vm", "state"), text(vm.Object, "status", "nodeName"),
		text(vm.Object, "status", "cpus"), text(vm.Object, "status", "ram"), strings.Join(addresses(vm.Object), ","), age(vm),
	}
	if t.namespaces {
		cells = slices.Insert(cells, 0, vm.GetNamespace())
	}
	if t.wide {
		cells = append(cells, conditionOf(vm.Object, "RestartRequired").status, text(vm.Object, "status", "guest", "os", "prettyName"),
			text(vm.Object, "status", "image"), ready.message)
	}
	for i, cell := range cells {
		if cell == "" {
			cells[i] = "-"
		}
	}
	return cells
}

func age(vm unstructured.Unstructured) string {
	created := vm.GetCreationTimestamp()
	if created.IsZero() {
		return ""
	}
	return duration.HumanDuration(time.Since(created.Time))
}

// addresses are those that the guest tells, without those that reach no further than its network.
func addresses(vm map[string]any) []string {
	var found []string
	for _, i := range items(vm, "status", "guest", "interfaces") {
		for _, a := range items(i, "addresses") {
			if address, ok := a.(string); ok && !strings.HasPrefix(strings.ToLower(address), "fe80:") {
				found = append(found, address)
			}
		}
	}
	return found
}
