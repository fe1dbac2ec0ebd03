package crd

import (
	"fmt"
	"regexp/syntax"
)

// longest is the number of characters that a text which matches a pattern can have; nil if there is no limit, as in a
// pattern that is not tied to the beginning and the end of the text.
func longest(pattern string) (*int64, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	if re.Op != syntax.OpConcat || re.Sub[0].Op != syntax.OpBeginText || re.Sub[len(re.Sub)-1].Op != syntax.OpEndText {
		return nil, nil
	}
	n, limited := length(re)
	if !limited {
		return nil, nil
	}
	return &n, nil
}

// length is the length of the longest match of an expression, and whether there is one.
func length(re *syntax.Regexp) (int64, bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune)), true
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, true
	case syntax.OpStar, syntax.OpPlus:
		return 0, false
	case syntax.OpRepeat:
		n, limited := length(re.Sub[0])
		return n * int64(re.Max), limited && re.Max >= 0
	case syntax.OpAlternate:
		var most int64
		for _, sub := range re.Sub {
			n, limited := length(sub)
			if !limited {
				return 0, false
			}
			most = max(most, n)
		}
		return most, true
	}
	// A sequence, a group, something that may be there, or a position in the text.
	var sum int64
	for _, sub := range re.Sub {
		n, limited := length(sub)
		if !limited {
			return 0, false
		}
		sum += n
	}
	return sum, true
}
