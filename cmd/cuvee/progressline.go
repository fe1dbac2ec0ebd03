package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressLine shows how far something is: on a terminal in one line that changes, elsewhere in a line now and then.
type progressLine struct {
	out      io.Writer
	what     string
	total    int64
	terminal bool
	every    time.Duration
	last     time.Time
	shown    bool
}

// How often a terminal shows what has changed, and how often there is a line elsewhere.
const (
	terminalEvery = 200 * time.Millisecond
	lineEvery     = 10 * time.Second
)

// newProgressLine shows nothing of what is done within the time until the first line.
func newProgressLine(out io.Writer, what string, total int64) *progressLine {
	f, ok := out.(*os.File)
	p := &progressLine{out: out, what: what, total: total, terminal: ok && isTerminal(f), every: lineEvery, last: time.Now()}
	if p.terminal {
		p.every = terminalEvery
	}
	return p
}

// set tells how many bytes are done.
func (p *progressLine) set(bytes int64) {
	if time.Since(p.last) < p.every {
		return
	}
	p.last, p.shown = time.Now(), true
	// It may be the name of a file in an image that somebody else has made.
	what := oneLine(p.what)
	text := fmt.Sprintf("%s: %d MiB", what, bytes>>20)
	if p.total > 0 {
		text = fmt.Sprintf("%s: %d %% of %d MiB", what, min(bytes*100/p.total, 100), p.total>>20)
	}
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// end removes the line from a terminal.
func (p *progressLine) end() {
	if p.terminal && p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
