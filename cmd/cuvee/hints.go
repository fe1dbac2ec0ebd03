package main

import (
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"

	"github.com/cuvee-vm/cuvee"
)

// hintNoManager is for a VM that no manager looks at.
const hintNoManager = "See whether cuvee-manager runs, and works in this namespace: kubectl get deployments -A -l app.kubernetes.io/name=vm-operator"

// hint says what to do about the reason of a condition; "" if there is nothing to do, or it is a site's own.
func hint(reason string) string { return hints()[reason] }

// hints are in the built-in templates. They are read when one is asked for, as that takes some milliseconds.
var hints = sync.OnceValue(func() map[string]string {
	file := load.Instances([]string{"./templates/vm/reasons.cue"}, &load.Config{FS: cuvee.Files, Dir: "/"})[0]
	reasons := map[string]struct{ Do string }{}
	if err := cuecontext.New().BuildInstance(file).LookupPath(cue.ParsePath("reasons")).Decode(&reasons); err != nil {
		// It is a part of this program, and a test reads it.
		return nil
	}
	out := make(map[string]string, len(reasons))
	for reason, r := range reasons {
		out[reason] = r.Do
	}
	return out
})
