package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[-A-Za-z0-9_./:=,@%+]+$`)

// shellQuote writes a word so that a POSIX shell reads it as it is.
func shellQuote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// writeCommand prints a command line with one option a line. An option is a word with a dash, and what follows it up to the
// next is its argument.
func writeCommand(w io.Writer, program string, argv []string) {
	fmt.Fprint(w, shellQuote(program))
	for _, word := range argv {
		if strings.HasPrefix(word, "-") {
			fmt.Fprint(w, " \\\n  ", shellQuote(word))
			continue
		}
		fmt.Fprint(w, " ", shellQuote(word))
	}
	fmt.Fprintln(w)
}
