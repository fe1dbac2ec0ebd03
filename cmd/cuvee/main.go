// Command cuvee shows what virtual machines become, and runs them on this machine.
package main

import "os"

func main() { os.Exit(Main(os.Args[1:])) }
