package main

import (
	"fmt"
	"io"
	"runtime"
)

// version is set by the build.
var version = "dev"

func printVersion(out io.Writer) {
	fmt.Fprintf(out, "cuvee-manager %s\n%s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
