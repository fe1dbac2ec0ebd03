package cluster

import "time"

// settled holds back a value that keeps changing, as a guest's RAM does while its balloon is filled.
type settled struct {
	// calm is how long a value has to be left alone before the next one is told at once.
	calm time.Duration

	value int64
	at    time.Time
}

// next is the value to tell now, and how long until another has to be told; 0 if there is none. It is the new value if it is
// as it shall be, or is nothing, or if the last change was long enough ago.
func (s *settled) next(now time.Time, value, want int64) (int64, time.Duration) {
	if value == s.value {
		return value, 0
	}
	left := s.calm - now.Sub(s.at)
	if left > 0 && value != want && value != 0 && s.value != 0 {
		return s.value, left
	}
	s.value, s.at = value, now
	return value, 0
}
