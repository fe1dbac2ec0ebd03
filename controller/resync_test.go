package controller

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Passes without a reason are spread over the interval, and each custom resource gets one an interval, whenever it was looked at last.
func TestNextTurn(t *testing.T) {
	const interval, parts, each = 30 * time.Second, 10, 1000
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var turns [parts]int
	for i := range parts * each {
		uid := types.UID(fmt.Sprintf("3f0c9a52-0000-4000-8000-%012d", i))
		first := nextTurn(start, interval, uid)
		if first <= 0 || first > interval {
			t.Fatalf("the first turn comes after %v", first)
		}
		turns[int(first-1)*parts/int(interval)]++
		for _, later := range []time.Duration{first / 2, first, first + 7*time.Second} {
			if got := (later + nextTurn(start.Add(later), interval, uid) - first) % interval; got != 0 {
				t.Fatalf("looked at after %v, its turn has moved by %v", later, got)
			}
		}
	}
	for i, n := range turns {
		if n < each*8/10 || n > each*12/10 {
			t.Errorf("part %d of the interval has %d turns, want about %d", i, n, each)
		}
	}
	if got := nextTurn(start, 0, "any"); got != 0 {
		t.Errorf("without an interval there is a turn after %v", got)
	}
}
