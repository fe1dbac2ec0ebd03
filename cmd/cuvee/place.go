package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cuvee-vm/cuvee/runner/consoleclient"
)

// place is where a VM runs: what the commands that use a running VM have to know of it. It is asked again each time, as a VM that
// was started anew may be reached in another way.
type place interface {
	// console is where the VM's serial port and screen are served.
	console(ctx context.Context) (*consoleclient.Endpoint, error)
	// display is how a viewer reaches the VM's SPICE display.
	display(ctx context.Context) (viewerFile, error)
}

// vmFlags name a running VM.
type vmFlags struct {
	namespace string
	dataDir   string
}

func (f *vmFlags) bind(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "the VM's namespace")
	flags.StringVar(&f.dataDir, "data-dir", "", "where the VM's data is kept, to tell apart VMs of one name")
}

// place returns where the VM of this name runs. That it does is found out when it is used.
func (f *vmFlags) place(name string) place {
	return localVM{want: identity{Namespace: f.namespace, Name: name}, dataDir: f.dataDir}
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

// completeVM completes the names of the VMs that run.
func (f *vmFlags) completeVM(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		for _, vm := range runningVMs() {
			if vm.Namespace == f.namespace {
				names = append(names, vm.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
