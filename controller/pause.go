package controller

import (
	"fmt"
	"maps"
	"time"
)

// statusPause is how long a status stays as it was written before its details are written anew: of a pod that starts there is something new
// several times a second.
const statusPause = time.Second

// firstPause is that of the first status. What it is about has just been made, and is on its way: most of the time a condition changes
// its status before it is over, and then all is told at once.
const firstPause = 3 * time.Second

// early is how long the status is to stay as it is, 0 if it is not. Only details wait for that. Another generation, a condition that changes its
// status, a problem and the stages of a deletion are told at once.
func (p *pass) early(own, desired map[string]any, err error) time.Duration {
	if err != nil || p.item.Deleting() || !sameInShort(own, desired) {
		return 0
	}
	return max(0, time.Until(p.state.calm))
}

// sameInShort says that two statuses are about the same generation, and have the same conditions with the same status.
func sameInShort(a, b map[string]any) bool {
	return fmt.Sprint(a[observedGeneration]) == fmt.Sprint(b[observedGeneration]) &&
		maps.EqualFunc(conditionsOf(a), conditionsOf(b), func(x, y map[string]any) bool { return x["status"] == y["status"] })
}

// wrote remembers that a status was written in the place of another one, none if that is empty.
func (s *state) wrote(last map[string]any) {
	pause := statusPause
	if len(last) == 0 {
		pause = firstPause
	}
	s.calm = time.Now().Add(pause)
}
