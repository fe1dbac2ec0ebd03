package crd

import "testing"

func TestLongest(t *testing.T) {
	const unlimited = -1
	for name, c := range map[string]struct {
		pattern string
		want    int64
	}{
		"Literal":          {`^abc$`, 3},
		"Counted":          {`^[a-z]{2,5}$`, 5},
		"CountedGroup":     {`^[0-9A-F]{2}(:[0-9A-F]{2}){5}$`, 17},
		"Optional":         {`^a(bc)?$`, 3},
		"LongestOfSeveral": {`^(k|Ki|Mib)$`, 3},
		"NotOnlyASCII":     {`^äöü$`, 3},
		"Star":             {`^a*$`, unlimited},
		"StarInGroup":      {`^(a|b*c)$`, unlimited},
		"AtLeast":          {`^a{2,}$`, unlimited},
		"OpenAtTheEnd":     {`^abc`, unlimited},
		"OpenAtTheStart":   {`abc$`, unlimited},
		"Empty":            {``, unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := longest(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				got = new(int64)
				*got = unlimited
			}
			if *got != c.want {
				t.Errorf("the longest text that matches %q has %d characters, got %d", c.pattern, c.want, *got)
			}
		})
	}
}
