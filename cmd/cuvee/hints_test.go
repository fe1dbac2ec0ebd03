package main

import (
	"strings"
	"testing"
)

// The hints are those of the templates, in which a test of the module's root looks for each reason.
func TestHints(t *testing.T) {
	if len(hints()) < 25 {
		t.Errorf("there are only %d hints", len(hints()))
	}
	for reason, do := range hints() {
		if do == "" || strings.Contains(do, "\n") {
			t.Errorf("%s: the hint is %q, want a line", reason, do)
		}
	}
	if hint("ImagePull") == "" || hint("Running") != "" {
		t.Errorf("ImagePull asks for %q, Running for %q", hint("ImagePull"), hint("Running"))
	}
}
