// Command cuvee shows what virtual machines become, and runs them on this machine.
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	// A render allocates some megabytes and is over in milliseconds: collecting them would take as long again.
	debug.SetGCPercent(400)
	os.Exit(Main(os.Args[1:]))
}
