package runner

import "context"

// configure brings a new QEMU to what the config's live part says, before the guest runs.
func (v *vm) configure(ctx context.Context) {}
