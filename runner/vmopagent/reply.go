package vmopagent

import (
	"bytes"
	"strings"
	"unicode"
)

// Reply is a line of the agent's.
type Reply struct {
	// Code has three digits.
	Code int
	// Text is for people: without control characters, as the guest may be hostile.
	Text string
}

// The codes of replies.
const (
	codeLoggedIn  = 201
	codeLoggedOut = 202
	codeHello     = 220
	codeBye       = 240
)

// parse reads a line: three digits, and a blank and a text, or nothing.
func parse(line []byte) (Reply, bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' {
		return Reply{}, false
	}
	var r Reply
	for _, digit := range line[:3] {
		if digit < '0' || digit > '9' {
			return Reply{}, false
		}
		r.Code = 10*r.Code + int(digit-'0')
	}
	r.Text = strings.TrimSpace(strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, string(line[3:])))
	return r, true
}
