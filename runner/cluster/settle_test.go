package cluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestSettled(t *testing.T) {
	type step struct {
		reason string
		// after is when, in seconds from the beginning.
		after       int
		value, want int64
		told        int64
		again       int
	}
	steps := []step{
		{"the first value is told at once", 0, 1000, 500, 1000, 0},
		{"a balloon that is being filled is not", 1, 900, 500, 1000, 14},
		{"still not", 14, 700, 500, 1000, 1},
		{"but from time to time", 15, 650, 500, 650, 0},
		{"what is told already is no news", 16, 650, 500, 650, 0},
		{"the goal is told at once", 17, 500, 500, 500, 0},
		{"a guest that takes RAM back has to wait", 18, 501, 500, 500, 14},
		{"back to what is told: nothing is left to tell", 19, 500, 500, 500, 0},
		{"the end is told at once", 20, 0, 500, 0, 0},
		{"and so is a new beginning", 21, 1000, 500, 1000, 0},
	}
	s := settled{calm: 15 * time.Second}
	begin := time.Now()
	for _, st := range steps {
		told, again := s.next(begin.Add(time.Duration(st.after)*time.Second), st.value, st.want)
		if told != st.told || again != time.Duration(st.again)*time.Second {
			t.Errorf("at %d s %d is told, more in %s; want %d and %d s: %s", st.after, told, again, st.told, st.again, st.reason)
		}
	}
}

func TestQuantity(t *testing.T) {
	cases := map[int64]string{
		0: "0", 1: "1", 1000: "1000", 1536: "1536", 1024: "1Ki", 4 << 30: "4Gi", 5<<30 + 1<<20: "5121Mi", 1 << 60: "1Ei", 4294967297: "4294967297",
	}
	for bytes, want := range cases {
		if got := quantity(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
		// What Kubernetes reads there.
		if read := resource.MustParse(want); read.Value() != bytes {
			t.Errorf("%q is read as %d bytes", want, read.Value())
		}
	}
}
