// Command cuvee-runner runs one virtual machine in a pod, and tells the cluster about it.
package main

import "os"

func main() { os.Exit(Main(os.Args[1:], os.Stderr)) }
