package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func newExplainCommand() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:   "explain VM",
		Short: "Say why a VM runs, or does not: from its specification to its guest",
		Long: `Follow what has to happen for a VM to be as its specification wants it: the specification is valid, the manager has applied it, the
StatefulSet makes a pod, the claims have volumes, the pod has a node and runs, QEMU runs the guest. Each of these is a line with
what is the case; what is wrong has a hint at what to do.

Exit codes: 0 the VM is as it shall be; 1 it is not, or cannot be looked at; 2 the command line is wrong.`,
		Example: "  cuvee explain web",
		Args:    oneVM,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return c.explain(cmd, args[0])
		},
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completeVMs(cmd, args, typed)
	}
	return cmd
}

// verdict is how a link of the chain is.
type verdict string

const (
	fine    verdict = "ok"
	wrong   verdict = "wrong"
	waiting verdict = "waits"
	// unknown: the user may not look, or there is nothing to look at.
	unknown verdict = "?"
)

// link is one of the things that have to be for a VM to be as it shall be.
type link struct {
	name    string
	verdict verdict
	// says is what is the case, a line or more.
	says []string
	// hint is what to do about it.
	hint string
}

// explain prints the chain of a VM.
func (c *cluster) explain(cmd *cobra.Command, name string) error {
	vm, err := c.vm(cmd.Context(), name)
	if err != nil {
		return err
	}
	e := &explanation{cluster: c, vm: vm, name: name, runs: wanted(vm)}
	links := e.chain(cmd.Context())
	good := e.good()
	fmt.Fprintln(cmd.OutOrStdout(), e.headline(good))
	for _, l := range links {
		for i, line := range l.says {
			head := fmt.Sprintf("%-6s %-14s", l.verdict, l.name)
			if i > 0 {
				head = strings.Repeat(" ", len(head))
			}
			fmt.Fprintln(cmd.OutOrStdout(), head, oneLine(line))
		}
		if l.hint != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%-21s -> %s\n", "", l.hint)
		}
	}
	if !good {
		return exitError{code: exitFailed}
	}
	return nil
}

// explanation is what is looked at for a VM.
type explanation struct {
	cluster *cluster
	vm      *unstructured.Unstructured
	name    string
	// runs says that the VM shall run.
	runs bool
}

// good says whether the VM is as it shall be.
func (e *explanation) good() bool {
	ready := conditionOf(e.vm.Object, "Ready")
	want := "Stopped"
	if e.runs {
		want = "Running"
	}
	return e.vm.GetDeletionTimestamp() == nil && ready.status == "True" && ready.reason == want && ready.generation >= e.vm.GetGeneration() &&
		conditionOf(e.vm.Object, "Paused").status != "True"
}

func (e *explanation) headline(good bool) string {
	shall := "be stopped"
	if e.runs {
		shall = "run"
	}
	name := e.cluster.namespace + "/" + e.name
	switch {
	case e.vm.GetDeletionTimestamp() != nil:
		return name + " is being deleted."
	case good:
		return fmt.Sprintf("%s shall %s, and that is so.", name, shall)
	}
	return fmt.Sprintf("%s shall %s, and that is not so.", name, shall)
}

// chain are the links in their order. Where there can be nothing behind a link, it is the last.
func (e *explanation) chain(ctx context.Context) []link {
	links := []link{e.specification(), e.manager()}
	if conditionOf(e.vm.Object, "Ready").reason == "" {
		return links
	}
	set, setLink := e.statefulSet(ctx)
	links = append(links, setLink)
	if set == nil {
		return links
	}
	links = append(links, e.claims(ctx, set)...)
	pod, podLink := e.pod(ctx)
	links = append(links, podLink)
	if !e.runs || pod == nil || text(pod.Object, "status", "phase") != "Running" {
		return links
	}
	return append(links, e.runner()...)
}

func (e *explanation) specification() link {
	l := link{name: "specification", verdict: fine, says: []string{"valid"}}
	ready := conditionOf(e.vm.Object, "Ready")
	switch {
	case ready.reason == "" || ready.generation < e.vm.GetGeneration():
		l.verdict, l.says = waiting, []string{fmt.Sprintf("nobody has looked at its generation %d yet", e.vm.GetGeneration())}
	case ready.reason == "InvalidSpec":
		l.verdict, l.says, l.hint = wrong, strings.Split(ready.message, "\n"), hint("InvalidSpec")
	default:
		if unused := conditionOf(e.vm.Object, "FieldsEffective"); unused.status == "False" {
			l.says = []string{"valid; " + unused.message}
		}
	}
	return l
}

func (e *explanation) manager() link {
	ready := conditionOf(e.vm.Object, "Ready")
	l := link{name: "manager", verdict: fine, says: []string{said(ready)}}
	switch {
	case ready.reason == "":
		l.verdict, l.says, l.hint = wrong, []string{"no manager has written a status"}, hintNoManager
	case ready.generation < e.vm.GetGeneration():
		l.verdict, l.says, l.hint = waiting, []string{"has not seen the newest specification"}, hintNoManager
	case conditionOf(e.vm.Object, "Stalled").status == "True":
		l.verdict, l.hint = wrong, hint(ready.reason)
		if ready.reason == "InvalidSpec" {
			l.says, l.hint = []string{"leaves everything as it is"}, ""
		}
	case ready.status != "True":
		l.verdict, l.hint = waiting, hint(ready.reason)
	}
	return l
}

// said is a condition in a line.
func said(c condition) string {
	if c.message == "" {
		return c.reason
	}
	return c.reason + ": " + c.message
}

// runner are the links that the runner in the VM's pod tells about.
func (e *explanation) runner() []link {
	running := conditionOf(e.vm.Object, "Running")
	qemu := link{name: "QEMU", verdict: fine, says: []string{
		fmt.Sprintf("%s; %s CPUs, %s of RAM", said(running), text(e.vm.Object, "status", "cpus"), text(e.vm.Object, "status", "ram")),
	}}
	if running.status != "True" {
		qemu.verdict, qemu.says, qemu.hint = waiting, append([]string{said(running)}, importLines(e.vm.Object)...), hint(running.reason)
	}
	if running.reason == reasonImportFailed {
		qemu.verdict = wrong
	}
	if paused := conditionOf(e.vm.Object, "Paused"); paused.status == "True" {
		qemu.verdict, qemu.says, qemu.hint = wrong, []string{"the guest stands still: " + said(paused)}, hint(paused.reason)
	}
	links := []link{qemu}
	if live := conditionOf(e.vm.Object, "LiveChangesApplied"); live.status == "False" {
		links = append(links, link{name: "changes", verdict: waiting, says: []string{said(live)}, hint: hint(live.reason)})
	}
	if restart := conditionOf(e.vm.Object, "RestartRequired"); restart.status == "True" {
		links = append(links, link{name: "changes", verdict: waiting, says: []string{said(restart)}, hint: hint(restart.reason)})
	}
	guest := link{name: "guest", verdict: fine, says: []string{"has booted"}}
	if found := addresses(e.vm.Object); len(found) > 0 {
		guest.says[0] += ", has " + strings.Join(found, ", ")
	}
	if conditionOf(e.vm.Object, "Booted").status != "True" {
		guest.verdict, guest.says = unknown, []string{"its agent has not answered: " + said(conditionOf(e.vm.Object, "GuestAgentConnected"))}
		guest.hint = "without an agent in the guest only its console tells whether it has booted: cuvee console " + e.name
	}
	return append(links, guest)
}

// notSeen is the link of something that could not be looked at.
func notSeen(name string, err error) link {
	l := link{name: name, verdict: unknown, says: []string{err.Error()}}
	if errors.Is(err, errForbidden) {
		l.hint = "somebody with this right sees more here"
	}
	return l
}
