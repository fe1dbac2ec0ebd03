package main

import (
	"bytes"
	"testing"
)

// Progress is a line that changes on a terminal, and lines elsewhere. What is fetched has its name from others, and is no control of a terminal.
func TestProgressLine(t *testing.T) {
	for name, tc := range map[string]struct {
		what     string
		total    int64
		terminal bool
		want     string
	}{
		"Lines":    {what: "filling system-disk", total: 8 << 20, want: "filling system-disk: 25 % of 8 MiB\nfilling system-disk: 100 % of 8 MiB\n"},
		"NoTotal":  {what: "fetching", want: "fetching: 2 MiB\nfetching: 9 MiB\n"},
		"Terminal": {what: "image", total: 8 << 20, terminal: true, want: "\rimage: 25 % of 8 MiB\x1b[K\rimage: 100 % of 8 MiB\x1b[K\r\x1b[K"},
		"Escapes":  {what: "disk/\x1b[2J\r\n.raw", want: "disk/ [2J  .raw: 2 MiB\ndisk/ [2J  .raw: 9 MiB\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgressLine(&out, tc.what, tc.total)
			p.set(1 << 20) // Too early to be of interest.
			p.every, p.terminal = 0, tc.terminal
			p.set(2 << 20)
			p.set(9 << 20)
			p.end()
			if out.String() != tc.want {
				t.Errorf("it shows %q, want %q", out.String(), tc.want)
			}
		})
	}
}
