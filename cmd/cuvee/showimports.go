package main

import (
	"context"
	"io"

	"github.com/cuvee-vm/cuvee/runner"
)

// showImports shows how far the disks are that are filled before a VM's start, until it has started or the context ends.
func showImports(ctx context.Context, vm *runner.VM, w io.Writer) {
	var line *progressLine
	end := func() {
		if line != nil {
			line.end()
			line = nil
		}
	}
	defer end()
	for {
		status, changed := vm.Status()
		if status.State != "" && status.State != runner.Starting {
			return
		}
		for _, i := range status.Imports {
			what := "filling " + i.Disk
			if i.State != runner.Importing {
				continue
			}
			if line == nil || line.what != what || line.total != i.Total {
				end()
				line = newProgressLine(w, what, i.Total)
			}
			line.set(i.Bytes)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
