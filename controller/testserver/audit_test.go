package testserver

import (
	"os"
	"strings"
	"testing"
)

// A moment is never within a line: the API server writes the audit log while it is read.
func TestMarkIsWholeLines(t *testing.T) {
	const whole = `{"verb":"get"}` + "\n" + `{"verb":"create"}` + "\n"
	long := `{"verb":"` + strings.Repeat("x", lineLimit) + `"}` + "\n"
	cases := map[string]struct {
		log  string
		want Mark
	}{
		"Empty":       {},
		"WholeLines":  {whole, Mark(len(whole))},
		"PartOfALine": {whole + `{"verb":"pa`, Mark(len(whole))},
		"OnlyAPart":   {`{"ver`, 0},
		"Long":        {long + whole + "{", Mark(len(long + whole))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Server{dir: t.TempDir()}
			if err := os.WriteFile(s.auditLog(), []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			mark, err := s.Mark()
			if err != nil || mark != tc.want {
				t.Errorf("the mark is %d, %v, want %d", mark, err, tc.want)
			}
		})
	}
}
