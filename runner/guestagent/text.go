package guestagent

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is the length in bytes of a text that is taken from a guest.
const maxText = 256

// text makes a text of a guest's fit to be shown: valid UTF-8, nothing that moves a cursor or turns the direction of writing, and
// not too long.
func text(s string) string {
	if len(s) > 4*maxText {
		s = s[:4*maxText]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}
