package render

import "testing"

// One bad name would cost all metrics of the manager, so it is the templates' fault.
func TestSeriesNames(t *testing.T) {
	for name, c := range map[string]struct {
		series Series
		good   bool
	}{
		"Plain":           {Series{Name: "a_b1", Labels: map[string]string{"c": "anything \n"}}, true},
		"OfTheEngine":     {Series{Name: "cuvee_resources"}, false},
		"WithDash":        {Series{Name: "a-b"}, false},
		"Empty":           {Series{}, false},
		"LabelWithDot":    {Series{Name: "a", Labels: map[string]string{"a.b": ""}}, false},
		"LabelIsReserved": {Series{Name: "a", Labels: map[string]string{"__name__": "b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.series.valid(); (err == nil) != c.good {
				t.Errorf("valid() is %v, want good: %v", err, c.good)
			}
		})
	}
}
