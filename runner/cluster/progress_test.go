package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Progress is told now and then, what matters at once.
func TestProgress(t *testing.T) {
	at := func(bytes int64) []importing { return []importing{{Disk: "disk-0", State: "Importing", Bytes: bytes}} }
	failed := []importing{{Disk: "disk-0", State: "Failed", Message: "no"}}
	p := progress{every: 5 * time.Second}
	begin := time.Now()
	for i, step := range []struct {
		after time.Duration
		is    []importing
		told  []importing
		again time.Duration
	}{
		{after: 0, is: nil, told: nil},
		{after: 0, is: at(0), told: at(0)},
		{after: time.Second, is: at(1), told: at(0), again: 4 * time.Second},
		{after: 5 * time.Second, is: at(5), told: at(5)},
		{after: 6 * time.Second, is: at(5), told: at(5)},
		{after: 6 * time.Second, is: failed, told: failed},
		{after: 6 * time.Second, is: at(0), told: at(0)},
		{after: 7 * time.Second, is: nil, told: nil},
	} {
		told, again := p.next(begin.Add(step.after), step.is)
		if diff := cmp.Diff(step.told, told); diff != "" || again != step.again {
			t.Errorf("step %d: again in %s, want %s; told (-want +got):\n%s", i, again, step.again, diff)
		}
	}
}
