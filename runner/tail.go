package runner

import (
	"bytes"
	"strings"
	"sync"
)

// tailLines is how many lines of a process's output are kept, tailBytes how long one may be.
const (
	tailLines = 20
	tailBytes = 4096
)

// tail is a writer that keeps the last lines written to it and hands complete lines on.
type tail struct {
	mu      sync.Mutex
	lines   []string
	partial []byte
	follow  func(line string)
}

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	for {
		line, rest, complete := bytes.Cut(b, []byte{'\n'})
		t.partial = append(t.partial, line[:min(len(line), max(0, tailBytes-len(t.partial)))]...)
		if !complete {
			return n, nil
		}
		t.add(strings.TrimRight(string(t.partial), "\r"))
		t.partial = t.partial[:0]
		b = rest
	}
}

func (t *tail) add(line string) {
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
	if t.follow != nil {
		t.follow(line)
	}
}

// setFollow makes f get the lines that are kept and each one from now on. It is called within Write.
func (t *tail) setFollow(f func(line string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		f(line)
	}
	t.follow = f
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.partial) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(t.partial))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
