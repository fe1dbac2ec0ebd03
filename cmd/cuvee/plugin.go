package main

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

// Names under which kubectl finds this program in $PATH: as its command "vm", and for the completion of that
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
const (
	pluginName     = "kubectl-vm"
	pluginComplete = "kubectl_complete-vm"
)

// asPlugin says whether the program was started under a name that kubectl has for it, and returns the arguments that are meant then.
func asPlugin(program string, args []string) (bool, []string) {
	switch filepath.Base(program) {
	case pluginName:
		return true, args
	case pluginComplete:
		return true, append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	return false, args
}

// makePlugin makes a root command kubectl's: its help says "kubectl vm".
func makePlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vm"}
}

// isPlugin says whether a command was started by kubectl.
func isPlugin(cmd *cobra.Command) bool { return cmd.Root().Annotations != nil }
