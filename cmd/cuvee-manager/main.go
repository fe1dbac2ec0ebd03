// Command cuvee-manager makes and keeps in a cluster what the templates render of its custom resources.
package main

import (
	"os"

	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() { os.Exit(Main(signals.SetupSignalHandler(), os.Args[1:], os.Stdout, os.Stderr)) }
