package cluster

import (
	"reflect"
	"time"
)

// progress holds back how far imports are, so that it is not told each second.
type progress struct {
	// every is how often it is told.
	every time.Duration

	told []importing
	at   time.Time
}

// next is what to tell now, and how long until something newer has to be told; 0 if there is nothing. What begins, ends or fails is told at once.
func (p *progress) next(now time.Time, imports []importing) ([]importing, time.Duration) {
	if reflect.DeepEqual(imports, p.told) {
		return p.told, 0
	}
	if left := p.every - now.Sub(p.at); left > 0 && sameSteps(imports, p.told) {
		return p.told, left
	}
	p.told, p.at = imports, now
	return imports, 0
}

// sameSteps says whether imports differ in nothing but how far they are.
func sameSteps(a, b []importing) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Disk != b[i].Disk || a[i].State != b[i].State || a[i].Source != b[i].Source || a[i].Message != b[i].Message {
			return false
		}
	}
	return true
}
