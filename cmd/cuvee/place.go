package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/runner/consoleclient"
)

// place is where a VM runs: what the commands that use a running VM have to know of it. It is asked again each time, as a VM that
// was started anew may be reached in another way.
type place interface {
	// String is what the VM is called there.
	fmt.Stringer
	// console is where the VM's serial port and screen are served.
	console(ctx context.Context) (*consoleclient.Endpoint, error)
	// display is how a viewer reaches the VM's SPICE display.
	display(ctx context.Context) (viewerFile, error)
}

// vmFlags name a running VM: one on this machine, or one of a cluster.
type vmFlags struct {
	clusterFlags
	local   bool
	dataDir string
}

// placeHelp is what these commands say about where the VM is.
const placeHelp = `

The VM is the one that "cuvee run" of this user runs under this name on this machine. If none does, or with --context or --kubeconfig, it is
one of the cluster. With --local or --data-dir it is never one of the cluster. As "kubectl vm" it always is.`

func (f *vmFlags) bind(cmd *cobra.Command) {
	f.bindCluster(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "the VM's namespace; without it \"default\" on this machine, and that of the kubeconfig's context in a cluster")
	cmd.Flags().BoolVar(&f.local, "local", false, "a VM on this machine, and none of a cluster")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "where the data of a VM on this machine is kept, to tell apart VMs of one name")
	completeFlag(cmd, "namespace", f.completeNamespace)
	cmd.Long += placeHelp
	cmd.ValidArgsFunction = f.completeVM
}

// localOnly says that a VM of a cluster is not meant, clusterOnly that one on this machine is not.
func (f *vmFlags) localOnly() bool { return f.local || f.dataDir != "" }
func (f *vmFlags) clusterOnly(cmd *cobra.Command) bool {
	return f.kubeconfig != "" || f.context != "" || isPlugin(cmd)
}

// here is the VM of a name on this machine.
func (f *vmFlags) here(name string) localVM {
	namespace := f.namespace
	if namespace == "" {
		namespace = "default"
	}
	return localVM{want: identity{Namespace: namespace, Name: name}, dataDir: f.dataDir}
}

// place returns where the VM of this name runs. It stays there for the whole command.
func (f *vmFlags) place(cmd *cobra.Command, name string) (place, error) {
	here := f.here(name)
	switch {
	case f.localOnly() && f.clusterOnly(cmd):
		return nil, usage(cmd, errors.New("--local and --data-dir are for VMs on this machine, not for those of a cluster"))
	case f.localOnly():
		return here, nil
	case !f.clusterOnly(cmd):
		_, err := here.find()
		if !errors.Is(err, errNoVM) {
			// It runs, or there are several, which it will say itself.
			return here, nil
		}
		c, connectErr := f.connect(cmd.ErrOrStderr())
		if errors.Is(connectErr, errNoCluster) {
			return nil, fmt.Errorf("%w; and no cluster is configured", err)
		}
		return clusterVM{cluster: c, name: name}, connectErr
	}
	c, err := f.connect(cmd.ErrOrStderr())
	return clusterVM{cluster: c, name: name}, err
}

// errNoName says that a command was not told which VM it is about.
var errNoName = errors.New("name a VM")

// oneVM takes the name of one VM, and nothing else.
func oneVM(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usage(cmd, errNoName)
	case 1:
		return nil
	}
	return noArgs(cmd, args[1:])
}

// completeVM completes the names of the VMs that run here, and of those of the cluster.
func (f *vmFlags) completeVM(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) > 0 {
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	if !f.clusterOnly(cmd) {
		for _, vm := range runningVMs() {
			if vm.Namespace == f.here("").want.Namespace {
				names = append(names, vm.Name)
			}
		}
	}
	if !f.localOnly() {
		others, _ := f.completeVMs(cmd, args, typed)
		names = append(names, others...)
	}
	slices.Sort(names)
	return withPrefix(slices.Compact(names), typed), cobra.ShellCompDirectiveNoFileComp
}
