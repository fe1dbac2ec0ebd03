package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is who the API server notes as the writer of what these commands change. It never changes.
const fieldManager = "cuvee-cli"

// Annotations of a VirtualMachine whose new value is a wish, see docs/controller.md.
const (
	restartAnnotation = "cuvee-vm.github.io/restart"
	resetAnnotation   = "cuvee-vm.github.io/reset"
)

// wish is something that a user wants of VMs.
type wish struct {
	// verb is what the command is called.
	verb string
	// patch is the merge patch that says so; it has no resourceVersion, so that it cannot conflict.
	patch func() map[string]any
	// running says that only a VM that shall run can have it.
	running bool
	// done says whether the wish has come true for the VM as it is now.
	done func(vm, patched *unstructured.Unstructured) bool
	// outcome is what is the case then.
	outcome string
}

type powerFlags struct {
	clusterFlags
	wait    bool
	timeout time.Duration
}

func newStartCommand() *cobra.Command {
	return newPowerCommand(wish{
		verb: "start", patch: func() map[string]any { return statePatch("Running") }, outcome: "runs",
		done: func(vm, patched *unstructured.Unstructured) bool { return isReady(vm, patched, "Running") },
	}, "Start VMs", `Set spec.vm.state of VMs to Running. The manager makes their pods then. With --wait the command ends when the VMs' guests have been
started; whether a guest has booted, the condition Booted says if an agent runs in it.`)
}

func newStopCommand() *cobra.Command {
	return newPowerCommand(wish{
		verb: "stop", patch: func() map[string]any { return statePatch("Stopped") }, outcome: "is stopped",
		done: func(vm, patched *unstructured.Unstructured) bool { return isReady(vm, patched, "Stopped") },
	}, "Shut VMs down", `Set spec.vm.state of VMs to Stopped. Their guests are told to power down, and after spec.vm.powerdownTimeout seconds they are ended.`)
}

func newRestartCommand() *cobra.Command {
	return newPowerCommand(wish{
		verb: "restart", patch: func() map[string]any { return annotationPatch(restartAnnotation) }, running: true, outcome: "is restarted",
		done: func(vm, patched *unstructured.Unstructured) bool {
			handled := text(vm.Object, "status", "handled", "restart") == patched.GetAnnotations()[restartAnnotation]
			return handled && isReady(vm, patched, "Running")
		},
	}, "Shut VMs down and start them again, with what has changed meanwhile", `Give VMs the annotation cuvee-vm.github.io/restart with a new value. Each guest is told to power down, and is started again in a
new pod. So changes take effect that need a restart, which the condition RestartRequired names.`)
}

func newResetCommand() *cobra.Command {
	return newPowerCommand(wish{
		verb: "reset", patch: func() map[string]any { return annotationPatch(resetAnnotation) }, running: true, outcome: "is reset",
		// Whether the guest boots then is another thing: one that has panicked again was reset all the same.
		done: func(vm, patched *unstructured.Unstructured) bool {
			return text(vm.Object, "status", "handled", "reset") == patched.GetAnnotations()[resetAnnotation]
		},
	}, "Reset the guests of VMs, as the reset button of a machine does", `Give VMs the annotation cuvee-vm.github.io/reset with a new value. The guest is not asked, and may lose data; QEMU and the pod go on.`)
}

func statePatch(state string) map[string]any {
	return map[string]any{"spec": map[string]any{"vm": map[string]any{"state": state}}}
}

// annotationPatch gives an annotation a value that it never had.
func annotationPatch(name string) map[string]any {
	value := time.Now().UTC().Format(time.RFC3339Nano)
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// isReady says whether the manager has brought a VM to where its specification of now, which is no older than a patched one, wants it.
func isReady(vm, patched *unstructured.Unstructured, reason string) bool {
	ready := conditionOf(vm.Object, "Ready")
	return ready.status == "True" && ready.reason == reason && ready.generation >= patched.GetGeneration()
}

func newPowerCommand(w wish, short, long string) *cobra.Command {
	var f powerFlags
	cmd := &cobra.Command{
		Use:     w.verb + " VM...",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  cuvee %[1]s web\n  cuvee %[1]s web db -n vms\n  cuvee %[1]s web --wait --timeout 5m", w.verb),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(cmd, errNoName)
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, names []string) error { return f.run(cmd, w, names) },
		ValidArgsFunction: f.completeVMs,
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it is done, and say what is waited for")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 20*time.Minute, "how long to wait")
	return cmd
}

func (f *powerFlags) run(cmd *cobra.Command, w wish, names []string) error {
	c, err := f.connect(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var patched []*unstructured.Unstructured
	var errs []error
	for _, name := range names {
		vm, err := c.want(cmd, w, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		patched = append(patched, vm)
		fmt.Fprintf(cmd.OutOrStdout(), "%s/%s: %s is requested\n", vm.GetNamespace(), vm.GetName(), w.verb)
	}
	if f.wait {
		errs = append(errs, c.await(cmd, w, patched, f.timeout))
	}
	return errors.Join(errs...)
}

// want writes a wish into a VM.
func (c *cluster) want(cmd *cobra.Command, w wish, name string) (*unstructured.Unstructured, error) {
	if w.running {
		vm, err := c.vm(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		if !wanted(vm) {
			return nil, fmt.Errorf("%s/%s is stopped; %s start %s starts it", c.namespace, name, cmd.Root().DisplayName(), name)
		}
	}
	patch, err := json.Marshal(w.patch())
	if err != nil {
		return nil, err
	}
	vm, err := c.vms().Patch(cmd.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) && !noKind(err) {
		return nil, c.noVM(cmd.Context(), name)
	}
	return vm, c.failed(err)
}

// wanted says whether a VM shall run. Where its specification says nothing, the manager knows.
func wanted(vm *unstructured.Unstructured) bool {
	switch text(vm.Object, "spec", "vm", "state") {
	case "Running":
		return true
	case "Stopped":
		return false
	}
	reason := conditionOf(vm.Object, "Ready").reason
	return reason != "Stopped" && reason != "Stopping"
}
